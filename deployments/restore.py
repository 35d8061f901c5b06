"""`gpu-runbooks restore FILE`: puts the saved keys of one run back."""

import argparse
import sys
from pathlib import Path

from flows.config import load_fleet
from tasks.context import Refused, utc_now
from tasks.freeze_file import read_freeze_file
from tasks.remediation.rendezvous_restore import restore_run
from tasks.remediation.rendezvous_save import BadSave, read_saved
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool


def main(args: list[str] | None = None) -> int:
    """0 put back, 2 not a saved run or no such rendezvous, 3 etcd or its node gives no answer, 4 refused."""
    parser = argparse.ArgumentParser(prog="gpu-runbooks restore", description=__doc__)
    parser.add_argument("file", type=Path, help="written before a run's keys were deleted; the report names it")
    parser.add_argument("--fleet", help="fleet file that has the rendezvous")
    given = parser.parse_args(args)
    pool = HostPool()
    try:
        return _restore(given.file, given.fleet, pool)
    except BadSave as e:
        return _say(str(e), 2)
    except Refused as e:
        return _say(f"refused: {e}", 4)
    except TransportError as e:
        return _say(f"no answer: {e}", 3)
    finally:
        pool.close_all()


def _restore(file: Path, fleet_file: str | None, pool: HostPool) -> int:
    frozen = read_freeze_file()
    if frozen is not None:
        raise Refused(f"this machine is frozen: {frozen}")
    saved, fleet = read_saved(file), load_fleet(fleet_file)
    place = next((p for p in fleet.rendezvous if p.name == saved.rendezvous), None)
    if place is None:
        return _say(f"the fleet file has no rendezvous {saved.rendezvous!r}", 2)
    done = restore_run(saved, place, pool(fleet.node(place.asks)), utc_now())
    print("\n".join(done.said))
    return 0


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
