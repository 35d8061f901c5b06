"""Marks a run with the process that runs it, and keeps saying that it lives, so that the reaper can tell."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flows import store
from flows.current_run import current_run
from tasks.context import utc_now
from tasks.this_machine import this_process

BEAT = "owner.beat"
SIGNED = "owner.state"  # which of the run's states it signed: a resumed run names its old process until the new one signs
BEAT_EVERY_S = 15.0
BEAT_DEAD_S = 100.0  # unmoved for so long, for owners on other machines; a target is free again within two minutes


def own_run(run_id: str, labels: dict[str, str]) -> None:
    """Writes this process into the run's labels. Called by the process that runs it."""
    store.label(run_id, this_process().labels() | _signature() | {BEAT: utc_now().isoformat()} | labels)


def _signature() -> dict[str, str]:
    """The state in which this process runs it, as the server answered when it was set."""
    run = current_run()
    state = run.state if run else None
    return {SIGNED: str(state.id)} if state else {}


@contextmanager
def heartbeat(run_id: str) -> Iterator[None]:
    """Renews the run's beat until the block ends."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT_EVERY_S):
            try:
                store.label(run_id, {BEAT: utc_now().isoformat()})
            except Exception:  # noqa: S112 - a missed beat is what a beat is for
                continue

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=2)
