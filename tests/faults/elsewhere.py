"""Lets a process of the fault harness believe that it is on another machine, with another clock.

`$MACHINE` is that machine's name ("=": this one's, as a clone has it), `$CLOCK_OFF_S` how far its clock is ahead of
ours, `$BEAT_EVERY_S` how often it says that it lives.
"""

import os
from datetime import UTC, datetime, timedelta

import flows.engine.ownership
import tasks.context
import tasks.this_machine


def machine(name: str = "elsewhere", off_s: float = 0.0, beat_s: float = 0.1) -> dict[str, str]:
    """The environment of a process on that machine."""
    return {"MACHINE": name, "CLOCK_OFF_S": str(off_s), "BEAT_EVERY_S": str(beat_s)}


def be_elsewhere() -> None:
    """Takes the machine's name, its boot and its clock from the environment; nothing there: stays as it is."""
    name = os.environ.get("MACHINE")
    if not name:
        return
    off = timedelta(seconds=float(os.environ["CLOCK_OFF_S"]))

    def shifted(_now: type[datetime] = datetime, _off: timedelta = off) -> datetime:
        return _now.now(UTC) + _off

    tasks.context.utc_now.__code__ = shifted.__code__  # every module has this function by name already
    tasks.context.utc_now.__defaults__ = shifted.__defaults__
    if name != "=":
        tasks.this_machine.machine_name = lambda: name
    tasks.this_machine.boot_id = lambda: f"boot-of-{name}"
    flows.engine.ownership.BEAT_EVERY_S = float(os.environ["BEAT_EVERY_S"])
