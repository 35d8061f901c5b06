"""`gpu-runbooks restore FILE`: puts the saved keys of one run back, through the engine: freeze, lock, record, proof."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.cli.words import Parser
from deployments.errors import FAULT, CommandError

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet
    from runbooks.core.rendezvous_config import Rendezvous
    from runbooks.core.verdict import Diagnosis

EPILOG = """exit codes: 0 restored, already there, or a dry run that would restore; 2 not a saved run, or no such rendezvous;
3 etcd or its node does not answer; 4 refused: the id has other keys, all keys expired, frozen, or locked"""


def parser() -> Parser:
    """The command's words. Nothing heavy is imported for them."""
    words = Parser(prog="gpu-runbooks restore", description=__doc__, epilog=EPILOG)
    words.add_argument("file", metavar="FILE", help="the file written before a run's keys were deleted; the report names it")
    words.add_argument("--fleet", metavar="FILE", help="fleet file that has the rendezvous")
    words.add_argument("--policy", metavar="FILE", help="policy file")
    words.add_argument("--out", metavar="DIR", help="folder for the report (default: reports.folder of the fleet file)")
    words.add_argument("--who", metavar="NAME", default="", help="your name, for the report (not verified)")
    words.add_argument("--dry-run", action="store_true", help="show what would be written; no server, no change")
    words.add_argument("--json", action="store_true", help="machine-readable output on stdout")
    return words


def main(args: list[str] | None = None) -> int:
    """See EPILOG."""
    ns = parser().parse_args(args)
    from deployments.cli.missing_secrets import check_secrets
    from flows.config import load_fleet, load_policy
    from runbooks.core.names import there_are
    from runbooks.core.rendezvous_config import find_named
    from runbooks.core.verdict import State
    from runbooks.rendezvous.saved import BadSave
    from tasks.rendezvous.saved import read_saved

    fleet = load_fleet(ns.fleet)
    load_policy(ns.policy)
    check_secrets(fleet, ns.fleet)
    try:
        saved, _ = read_saved(Path(ns.file))
    except BadSave as e:
        return _say(ns, str(e), 2)
    place = find_named(fleet.rendezvous, saved.rendezvous)
    if place is None:
        names = there_are(saved.rendezvous, [r.name for r in fleet.rendezvous])
        return _say(ns, f"the fleet file has no rendezvous {saved.rendezvous!r}; {names}", 2)
    seen = _diagnose(ns, fleet, place)
    if not seen.plans:
        code = 0 if seen.state is not State.CANNOT_TELL else 4 if seen.causes else 3
        return _say(ns, ("refused: " if code == 4 else "") + seen.headline, code)
    if ns.dry_run:
        step = seen.plans[0].steps[0]
        return _say(ns, f"would be done: {seen.headline}; {step.effect}; lost: {step.loses}", 0)
    return _through_the_engine(ns, place, seen.plans[0].digest)


def _diagnose(ns: argparse.Namespace, fleet: "Fleet", place: "Rendezvous") -> "Diagnosis":
    """What the engine is going to see, without it."""
    from deployments.cli.run_offline import run_offline
    from deployments.paths import absolute
    from flows.specs import load_spec
    from tasks.report_store import reports_root

    folder = reports_root(absolute(ns.out) or fleet.reports.folder)
    report, fault = run_offline(load_spec("stale-rendezvous"), fleet, place.name, folder, options={"restore": _file(ns)})
    if fault:
        raise CommandError(f"{report.headline}; {fault}", FAULT)
    return report.diagnosis


def _file(ns: argparse.Namespace) -> str:
    return str(Path(ns.file).absolute())


def _through_the_engine(ns: argparse.Namespace, place: "Rendezvous", digest: str) -> int:
    """One run in mode approve; the command itself is the approval of exactly that plan."""
    from deployments.cli.run import finish, run_online
    from deployments.paths import absolute

    facts = run_online(
        "stale-rendezvous",
        place.name,
        "approve",
        absolute(ns.fleet),
        absolute(ns.policy),
        absolute(ns.out),
        options={"restore": _file(ns)},
        quiet=ns.json,
        allowed=f"{digest} {ns.who or 'whoever typed the command'}",
    )
    return finish(ns, facts)


def _say(ns: argparse.Namespace, text: str, code: int) -> int:
    facts: dict[str, Any] = {"outcome": "dry-run" if ns.dry_run else None, "headline": text, "exit_code": code}
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        print(text, file=sys.stderr if code else sys.stdout)
    return code
