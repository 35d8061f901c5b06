"""Ends that a container shares with others: the host's reboot, the engine's restart, an event that nobody read."""

from datetime import datetime

from runbooks.container.backoff import is_kept
from runbooks.container.evidence import ContainerFacts, Evidence, Sibling
from runbooks.container.words import Limits, cause, clock, known, near, span
from runbooks.core.host_facts import HostFacts, Upgrade
from runbooks.core.verdict import Cause, Certainty

ENDED_BY_ENGINE = (0, 137, 143, 255)  # what a daemon's own stop leaves behind
A_CROWD = 2  # others that ended with it: no accident


def companions(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Sibling]:
    """Other containers that ended in the same moment."""
    return [s for s in known(e.siblings) or () if near(s.finished_at, c.finished_at, limits.together_s) and not is_kept(s.name, e.name)]


def host_event(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The machine was started again, or the engine was."""
    return _host_reboot(e, c, limits) or _daemon_restart(e, c, limits)


def _host_reboot(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    host = known(e.host)
    if host is None or c.started_at is None or c.finished_at is None or c.started_at >= host.booted_at:
        return []
    if (host.booted_at - c.finished_at).total_seconds() > limits.shutdown_window_s:
        return []
    return [
        cause(
            "host-rebooted", Certainty.CONFIRMED, e.node,
            f"{e.node} was booted at {clock(host.booted_at)}; the container had run since {clock(c.started_at)} "
            f"and is recorded as ended at {clock(c.finished_at)} with code {c.exit_code}",
            *(f"package log: {said(u)}; this boot made it effective" for u in made_effective(host, c.started_at, host.booted_at)[-3:]),
        )
    ]  # fmt: skip


def _daemon_restart(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The engine's daemon was stopped or restarted and took the container with it."""
    host = known(e.host)
    up = host.daemon_started_at if host else None
    if host is None or up is None or c.finished_at is None or c.started_at is None or c.started_at >= up:
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
    others, host = companions(e, c, limits), known(e.host)
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
