"""Ends that a container shares with others: the host's reboot, the engine's restart, an event that nobody read."""

from datetime import datetime

from runbooks.container.backoff import is_kept
from runbooks.container.evidence import ContainerFacts, Evidence, Sibling
from runbooks.container.words import Limits, cause, clock, near, span
from runbooks.core.host_facts import HostFacts, Upgrade
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty

ENDED_BY_ENGINE = (0, 137, 143, 255)  # what a daemon's own stop leaves behind
WENT_DOWN = 255  # what the engine writes after it is back, for what it finds gone
EITHER = "either the reboot ended it, or something did shortly before"
WHEN = (
    "when the shutdown began: `journalctl -b -1 -n 20 -u systemd-logind` on the node",
    "who stopped it before: shell histories, the log of what deploys it",
)
A_CROWD = 2  # others that ended with it: no accident


def companions(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Sibling]:
    """Other containers that ended in the same moment."""
    return [s for s in value_of(e.siblings) or () if near(s.finished_at, c.finished_at, limits.together_s) and not is_kept(s.name, e.name)]


def host_event(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The machine was started again, or the engine was."""
    return _host_reboot(e, c, limits) or _daemon_restart(e, c, limits)


def _host_reboot(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The boot, where its shutdown can have ended the container; likely only, where it can as well have ended before that began."""
    host, end = value_of(e.host), c.finished_at
    if host is None or end is None or not _over_the_boot(host, c):
        return []
    began = _shutdown(host, c)
    late = (host.booted_at - end).total_seconds() > limits.shutdown_window_s
    if late if began is None else end < began and (late or not _held_up(e, c, began, limits)):
        return []
    after = end >= host.booted_at or c.exit_code == WENT_DOWN
    sure = after or (began is not None and end >= began)
    since = made_effective(host, c.started_at or end, host.booted_at)
    return [
        cause(
            "host-rebooted", Certainty.CONFIRMED if sure else Certainty.LIKELY, e.node,
            f"{e.node} was booted at {clock(host.booted_at)}; the container ended at {clock(end)} with code {c.exit_code}",
            "" if sure else EITHER,
            f"the container was started at {clock(c.started_at)}",
            "" if after else f"the shutdown began at {clock(began)}" if began else "when the shutdown began is not known",
            *(f"package log: {said(u)}; this boot made it effective" for u in since[-3:]),
            decides=() if sure else WHEN[1:] if began else WHEN,
        )
    ]  # fmt: skip


def _held_up(e: Evidence, c: ContainerFacts, began: datetime, limits: Limits) -> bool:
    """Others ended with it before the shutdown began: a node agent may hold that up and end its containers first."""
    return any(s.finished_at is not None and s.finished_at < began for s in companions(e, c, limits))


def _over_the_boot(host: HostFacts, c: ContainerFacts) -> bool:
    return c.started_at is not None and c.started_at < host.booted_at


def _shutdown(host: HostFacts, c: ContainerFacts) -> datetime | None:
    """When the shutdown before the present boot began; None where that is not known, an older one was read, or a clock was set back."""
    began, end = host.shutdown_began_at, c.finished_at
    if began is None or end is None or c.started_at is None or end < c.started_at:
        return None
    return began if c.started_at <= began <= host.booted_at else None


def not_the_reboot(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The reboot ruled out: the container had ended shortly before the shutdown began."""
    host, end = value_of(e.host), c.finished_at
    began = _shutdown(host, c) if host else None
    if began is None or end is None or end >= began or (began - end).total_seconds() > limits.shutdown_window_s:
        return []
    words = f"it ended at {clock(end)}, {span((began - end).total_seconds())} before the shutdown began ({clock(began)})"
    return [cause("host-rebooted", Certainty.RULED_OUT, e.node, words)]


def _daemon_restart(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The engine's daemon was stopped or restarted and took the container with it."""
    host = value_of(e.host)
    up = host.daemon_started_at if host else None
    if host is None or up is None or c.finished_at is None or c.started_at is None or c.started_at >= up:
        return []
    if c.finished_at < host.booted_at:  # that start belongs to the boot
        return []
    gap = (up - c.finished_at).total_seconds()
    if not -limits.together_s <= gap <= limits.restart_window_s or c.exit_code not in ENDED_BY_ENGINE:
        return []
    others = [s.name for s in companions(e, c, limits)]
    sure = bool(others) or c.exit_code == 255 or gap <= limits.oom_window_s
    upgrade = engine_upgrade(host, c.started_at, up, limits)
    words = [
        f"the daemon started at {clock(up)}, {span(gap)} after this death (code {c.exit_code})",
        f"{len(others)} more ended within {span(limits.together_s)}: {', '.join(others[:5])}" if others else "",
        f"package log: {said(upgrade)}; this start made it effective" if upgrade else "",
    ]
    return [
        cause(
            "daemon-upgraded" if upgrade else "daemon-restarted", Certainty.CONFIRMED if sure else Certainty.LIKELY,
            f"the engine on {e.node}", *words,
            decides=() if sure else ("the daemon's log around that time",),
        )
    ]  # fmt: skip


def engine_upgrade(host: HostFacts, since: datetime, up: datetime, limits: Limits) -> Upgrade | None:
    """The upgrade of the engine that this start of it made effective: right before it, or at any time after `since`, when
    the container was started by the daemon of before."""
    own = [u for u in host.upgrades if u.about == "engine" and u.at <= up]
    return next((u for u in reversed(own) if u.at >= since or near(u.at, up, limits.upgrade_window_s)), None)


def made_effective(host: HostFacts, since: datetime, until: datetime) -> list[Upgrade]:
    """Upgrades of engine, driver or kernel between two times, oldest first."""
    return [u for u in host.upgrades if since <= u.at <= until]


def said(u: Upgrade) -> str:
    """An upgrade in words."""
    return f"{u.package} {u.what} at {clock(u.at)}"


def ended_together(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Others ended in the same moment, and neither host nor engine is known to be the reason."""
    others, host = companions(e, c, limits), value_of(e.host)
    read = host is not None and host.daemon_started_at is not None
    if c.exit_code not in ENDED_BY_ENGINE or len(others) < (A_CROWD if read else 1):
        return []
    by_itself = read and c.exit_code == 0  # parts of one job end together
    sure = Certainty.LIKELY if len(others) >= A_CROWD and not by_itself else Certainty.POSSIBLE
    seen = "neither the machine nor its engine was started again around then" if read else "host and engine were not read"
    names = ", ".join(f"{s.name} ({s.exit_code})" for s in others[:5])
    return [
        cause(
            "ended-together", sure, f"the engine on {e.node}",
            f"{len(others)} more containers ended within {span(limits.together_s)} of {clock(c.finished_at)}: {names}", seen,
            decides=("boot time, and the engine's start time and log, around that second", "whether they are parts of one job"),
        )
    ]  # fmt: skip
