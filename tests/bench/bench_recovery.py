"""Measures recovery of a killed Ray worker's container: `gpu-runbooks watch` against the floor and a ten-second retry loop.

Run: `python -m tests.bench.bench_recovery [kills]`. Everything is real and in the same run: engine, head, Prefect server.
The floor is what nobody can save: `docker run`, set-up and `ray start`, until the head lists the new node as ALIVE.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.faults.real import policy_of
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import ray_cluster
from tests.support.ray_worker import worker_room
from tests.support.recovery import NAME, by_hand, fields, in_words, kills, loop_kills, ray_section
from tests.support.watch_room import ALLOWS_25, KINDS, watch_room


def main(number: int) -> None:
    """Prints medians and the worst of each."""
    folder = Path(tempfile.mkdtemp(prefix="bench-recovery"))
    rig = Rig(folder / "rig")
    with ExitStack() as end, rig.settings(), ray_cluster() as cluster, worker_room(cluster) as (engine, dashboard):
        rig.begin()
        end.callback(rig.close)
        by_hand(engine, cluster)
        ray = ray_section(dashboard)
        with watch_room(
            rig, folder / "w", engine, NAME, policy=policy_of(KINDS), limits=ALLOWS_25, ray=ray, **fields(cluster)
        ) as room:
            room.start()
            watched, floors = kills(room, engine, cluster, number)
        looped = loop_kills(engine, cluster, folder, max(2, number // 2))
    for name, times in (("floor", floors), ("watch", watched), ("10-second loop", looped)):
        print(in_words(name, times), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
