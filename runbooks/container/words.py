"""Small helpers that the container-death judgment's parts share: access to readings, times in words, causes."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from runbooks.container.backoff import is_kept, recent
from runbooks.container.evidence import ContainerFacts, EngineEvent, Evidence
from runbooks.core.base import Amount, Count, Frozen, Size
from runbooks.core.host_facts import Disk, HostFacts
from runbooks.core.reading import value_of
from runbooks.core.times import utc
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.closing import closing_error
from runbooks.triage.text import error_lines


class Limits(Frozen):
    """Numbers of runbook.yaml."""

    life_slack_s: Amount  # how far a life may be from its sleep's length
    oom_window_s: Amount  # kernel line to death
    stop_window_s: Amount  # stop or kill request to death
    together_s: Amount  # deaths this close are one event
    restart_window_s: Amount  # death to the daemon's start
    shutdown_window_s: Amount  # death to the host's boot
    upgrade_window_s: Amount  # package upgrade to the daemon's start
    disk_free_min_bytes: Size
    inodes_free_min_percent: Amount
    memory_free_min_percent: Amount
    shm_small_bytes: Size
    deaths_to_escalate: Count
    deaths_window_s: Amount
    backoff_base_s: Amount
    backoff_cap_s: Amount
    young_life_s: Amount  # a life shorter than this is part of a loop
    steady_s: Amount  # running at least this long before it is called well after a death
    join_s: Amount  # time a Ray node may take to show at the head
    clock_off_s: Amount
    clocks_apart_s: Amount
    listed_dead_s: Amount  # how long the head may list a node whose processes are gone
    health_streak: Count
    work_window_s: Amount  # so long a container's processes are watched for somebody at work
    work_cpu_percent: Amount  # of one core
    work_bytes_per_s: Amount  # read and written, or through TCP
    keep_old_s: Amount  # a replaced container is kept at least this long


def without_driver(host: HostFacts) -> tuple[Certainty, tuple[str, ...]]:
    """How sure devices are lost by themselves, and what decides it: a driver that is not loaded has none, and comes first."""
    d = host.driver
    if d is None and not host.nvidia_devices:
        return Certainty.LIKELY, ("whether the NVIDIA driver is loaded: `lsmod | grep nvidia` on the node",)
    if d is not None and d.libraries and not d.loaded and not host.nvidia_devices:
        return Certainty.LIKELY, ("why the NVIDIA driver is not loaded: `lsmod | grep nvidia`, `dmesg` on the node",)
    return Certainty.CONFIRMED, ()


def cause(slug: str, certainty: Certainty, subject: str, *evidence: str, decides: tuple[str, ...] = (),
          benign: bool = False) -> Cause:  # fmt: skip
    """A cause; empty sentences are left out."""
    return Cause(
        slug=slug, certainty=certainty, subject=subject, evidence=tuple(s for s in evidence if s), decides=decides,
        benign=benign,
    )  # fmt: skip


def clock(at: datetime | None) -> str:
    """A time as text, to the second."""
    return utc(at) if at else "an unknown time"


def span(seconds: float) -> str:
    """Seconds in words."""
    s = abs(seconds)
    if s < 120:
        return f"{s:.0f} s" if s >= 10 else f"{s:.1f} s"
    return f"{s / 60:.0f} min" if s < 7200 else f"{s / 3600:.1f} h"


def life_s(c: ContainerFacts) -> float | None:
    """How long its last life was; None while it runs or where a time is missing."""
    if c.started_at is None or c.finished_at is None or c.finished_at < c.started_at:
        return None
    return (c.finished_at - c.started_at).total_seconds()


AT_ONCE_S = 1.0  # design: the engine writes both times within one start; a clock that was set back goes further


def of_this_life(c: ContainerFacts, at: datetime, slack_s: float = 0) -> bool:
    """False for what was before its last start: one that was started again keeps its id, and what was done to it before.

    Where its end is recorded before its start (a clock was set back), that order says nothing, and nothing is left out. Of one that
    ended at once the engine may write the end some milliseconds before the start.
    """
    if c.started_at is None or c.finished_at is None or c.finished_at < c.started_at - timedelta(seconds=AT_ONCE_S):
        return True
    return at >= c.started_at - timedelta(seconds=slack_s)


def lacks_space(disk: Disk, limits: Limits) -> bool:
    """Less is free than the limit, or than a tenth of a small disk."""
    return disk.free_bytes < min(limits.disk_free_min_bytes, disk.size_bytes // 10)


def lacks_inodes(disk: Disk, limits: Limits) -> bool:
    """Of a file system with a fixed number of inodes."""
    return bool(disk.inodes) and disk.inodes_free * 100 < disk.inodes * limits.inodes_free_min_percent


def near(at: datetime | None, other: datetime | None, within_s: float) -> bool:
    """True if both are known and at most that far apart."""
    return at is not None and other is not None and abs((at - other).total_seconds()) <= within_s


def own_events(e: Evidence, c: ContainerFacts) -> tuple[EngineEvent, ...]:
    """Events of this very container."""
    return tuple(x for x in value_of(e.events) or () if x.id == c.id)


def deaths(e: Evidence, limits: Limits) -> tuple[datetime, ...]:
    """Deaths of containers of this name within the window: its own, kept predecessors', and in the event stream.

    An engine that hung says `die` when it goes on, minutes after the end that it then records: that is one death.
    """
    c = value_of(e.container)
    ends = {s.id: s.finished_at for s in value_of(e.siblings) or () if is_kept(s.name, e.name) and s.finished_at}
    if c is not None and c.status != "running" and c.finished_at is not None:
        ends[c.id] = c.finished_at
    said = [x for x in value_of(e.events) or () if x.action == "die" and (x.name == e.name or is_kept(x.name, e.name))]
    at = [x.at for x in said if (x.at < ends[x.id] if x.id in ends else x.id or not _may_be_of(x.at, ends.values(), limits))]
    return recent([*at, *ends.values()], e.taken_at, limits.deaths_window_s)


def _may_be_of(at: datetime, ends: Iterable[datetime], limits: Limits) -> bool:
    """Whether the word on a death of no named container may be of one of these, perhaps late."""
    return any(end <= at or near(at, end, limits.together_s) for end in ends)


def reported_dead(e: Evidence, c: ContainerFacts, limits: Limits) -> EngineEvent | None:
    """The engine's word on this very death; late if it hung meanwhile. None: it was not told, or is forgotten."""
    host = value_of(e.host)
    up = host.daemon_started_at if host else None
    for x in own_events(e, c):
        late = c.finished_at is not None and up is not None and up <= c.finished_at <= x.at
        if x.action == "die" and (late or near(x.at, c.finished_at, limits.together_s)):
            return x
    return None


def log_of(e: Evidence) -> tuple[str, ...]:
    """The lines of its log that were read, oldest first."""
    return value_of(e.log) or ()


def last_words(e: Evidence, count: int = 3) -> str:
    """What its log says of an error, wherever it stands in it, else its end; in one sentence."""
    lines = log_of(e)
    if error := closing_error(lines):
        return "its own last error: " + " | ".join(error[-2 * count :])
    if earlier := error_lines(lines):
        return f"its words tell of an error before their end: {' | '.join(earlier[-count:])}. They end: {' | '.join(lines[-count:])}"
    return "its last words: " + " | ".join(lines[-count:]) if lines else ""
