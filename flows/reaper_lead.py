"""Which reaper leads: each says in a variable of the server that it lives; of those that live, the oldest does the work.

Two that lead at one moment do no harm (each change is made once by the server); a second one is noticed, and stands by.
"""

from datetime import datetime, timedelta

from flows import store
from flows.clock import server_now
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from tasks.this_machine import this_process

PREFIX = "gpu_runbooks_reaper_"
SILENT = timedelta(seconds=60)  # four rounds
FORGOTTEN = timedelta(days=1)


class Reaper(Frozen):
    """One reaper as it last wrote itself down; times by the server's clock."""

    name: str  # variable's name without PREFIX
    who: str
    since: datetime
    at: datetime
    done: int = 0  # lines of its last round

    def alive(self, now: datetime) -> bool:
        """True if it wrote within the last rounds."""
        return now - self.at < SILENT


def own_name() -> str:
    """Of this process: one variable each, for as long as it lives."""
    me = this_process()
    return slug(me.host.split("/")[0], str(me.pid), str(me.start_ticks)).replace("-", "_")


def reapers() -> tuple[Reaper, ...]:
    """Every reaper that wrote itself down, the one that has lived longest first."""
    found = [Reaper(name=name, **facts) for name, facts in store.variables(PREFIX).items()]
    return tuple(sorted(found, key=lambda r: (r.since, r.name)))


def leader(known: tuple[Reaper, ...], now: datetime) -> Reaper | None:
    """The one that does the work."""
    return next((r for r in known if r.alive(now)), None)


def beat(since: datetime, done: int = 0) -> Reaper | None:
    """Writes down that this process lives, forgets the dead of yesterday, and returns who leads now."""
    now, name = server_now(), own_name()
    me = Reaper(name=name, who=this_process().shown, since=since, at=now, done=done)
    store.set_variable(PREFIX + name, me.model_dump(mode="json", exclude={"name"}))
    known = reapers()
    for old in (r for r in known if now - r.at > FORGOTTEN):
        store.delete_variable(PREFIX + old.name)
    return leader(known, now)


def leave() -> None:
    """This process ends: another takes over at once."""
    store.delete_variable(PREFIX + own_name())
