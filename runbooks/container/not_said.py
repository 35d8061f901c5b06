"""What of a container's end the records leave open: while one of these is not said, no cause of that end is confirmed."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from runbooks.container.backoff import is_kept
from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.memory_kills import nameless_kills
from runbooks.container.shared_end import ENDED_BY_ENGINE
from runbooks.container.words import Limits, clock, near
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty

ENDED = ("exited", "dead")


def as_said(e: Evidence, c: ContainerFacts, limits: Limits, found: list[Cause]) -> list[Cause]:
    """These causes of its end, as sure as the records allow."""
    asks = tuple(_asks(e, c, limits))
    if not asks:
        return found
    less = {"certainty": Certainty.LIKELY}
    return [x.model_copy(update=less | {"decides": (*x.decides, *asks)}) if x.certainty is Certainty.CONFIRMED else x for x in found]


def _asks(e: Evidence, c: ContainerFacts, limits: Limits) -> Iterator[str]:
    if c.status == "created":
        return  # it never ran
    end = c.finished_at
    if c.started_at is None:
        yield "when it was started last: the engine's record does not say"
    if end is None:
        yield "when it ended: the engine's record does not say"
    host, daemon = value_of(e.host), value_of(e.daemon)
    if host and host.daemon_started_at is None and c.exit_code in ENDED_BY_ENGINE and not (daemon and daemon.podman):
        yield "when the engine's daemon was started: it may have ended its containers then"
    yield from _others(e, c, end, limits)


def _others(e: Evidence, c: ContainerFacts, end: datetime | None, limits: Limits) -> Iterator[str]:
    """Events, kills and ends that may belong to this one, and of which that is not said."""
    for s in value_of(e.siblings) or ():
        if s.status in ENDED and s.finished_at is None and not is_kept(s.name, e.name):
            yield f"whether {s.name} ended in the same moment: its end has no time"
    window = max(limits.stop_window_s, limits.oom_window_s)
    for x in value_of(e.events) or ():
        if not x.id and x.name in ("", e.name, c.name) and x.action in ("kill", "stop", "oom") and near(x.at, end, window):
            yield f"whether the engine's `{x.action}` at {clock(x.at)} was of it: that event names no container"
    around = timedelta(seconds=limits.oom_window_s)
    for k in nameless_kills(e, end - around, end + around) if end else ():
        yield f"whether {k.process} (pid {k.pid}), killed for memory at {clock(k.at)}, was of it: that line names no cgroup"
