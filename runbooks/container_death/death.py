"""Why a container that does not run ended: exit code, flag, kernel log, event stream and times, read together."""

from datetime import datetime

from runbooks.container_death.evidence import ContainerFacts, EngineEvent, Evidence, KernelOom
from runbooks.container_death.keepalive import keep_alive
from runbooks.container_death.others import stopped_unit
from runbooks.container_death.start_errors import start_error
from runbooks.container_death.words import (
    Limits,
    cause,
    clock,
    known,
    last_words,
    life_s,
    near,
    own_events,
    said_dead,
    span,
)
from runbooks.core.reading import Unknown
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import says

SIGNALS = {134: "SIGABRT", 136: "SIGFPE", 139: "SIGSEGV", 132: "SIGILL", 133: "SIGTRAP"}
ENDED_BY_ENGINE = (0, 137, 143, 255)  # what a daemon's own stop leaves behind


def judge_death(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Causes of the end of `c`, the earliest first. One of them at least."""
    host_level = host_reboot(e, c, limits) or daemon_restart(e, c, limits)
    if host_level:
        return host_level
    if c.error and (c.status == "created" or c.exit_code in (125, 126, 127, 128)):
        return [start_error(c)]
    oom = out_of_memory(e, c, limits)
    if any(x.slug != "oom-child" for x in oom):
        return oom
    return oom + (on_purpose(e, c, limits) or own_end(e, c, limits) or by_code(e, c, limits))


def host_reboot(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The machine was started again while it ran."""
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
        )
    ]  # fmt: skip


def daemon_restart(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The engine's daemon was stopped or restarted and took the container with it."""
    host = known(e.host)
    up = host.daemon_started_at if host else None
    if host is None or up is None or c.finished_at is None or c.started_at is None or c.started_at >= up:
        return []
    gap = (up - c.finished_at).total_seconds()
    if not -limits.together_s <= gap <= limits.restart_window_s or c.exit_code not in ENDED_BY_ENGINE:
        return []
    others = [s.name for s in known(e.siblings) or () if near(s.finished_at, c.finished_at, limits.together_s)]
    sure = bool(others) or c.exit_code == 255 or gap <= limits.oom_window_s
    upgrade = next((u for u in host.upgrades if near(u.at, up, limits.upgrade_window_s) and u.at <= up), None)
    words = [
        f"the daemon started at {clock(up)}, {span(gap)} after this death (code {c.exit_code})",
        f"{len(others)} more ended within {span(limits.together_s)}: {', '.join(others[:5])}" if others else "",
        f"package log: {upgrade.package} {upgrade.what} at {clock(upgrade.at)}" if upgrade else "",
    ]
    return [
        cause(
            "daemon-upgraded" if upgrade else "daemon-restarted", Certainty.CONFIRMED if sure else Certainty.LIKELY,
            f"the engine on {e.node}", *words,
            decides=() if sure else ("the daemon's log around that time",),
        )
    ]  # fmt: skip


def _kernel_kills(e: Evidence, c: ContainerFacts, since: datetime | None, until: datetime | None) -> list[KernelOom]:
    kills = [k for k in known(e.ooms) or () if c.id in k.cgroup or (c.id[:12] in k.cgroup)]
    return [k for k in kills if (since is None or k.at >= since) and (until is None or k.at <= until)]


def out_of_memory(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """A kill for memory, by the kernel's own line; the flag alone proves neither that nor which process it was."""
    kills = _kernel_kills(e, c, None, None)
    last = [k for k in kills if near(k.at, c.finished_at, limits.oom_window_s)]
    if last and c.exit_code == 137:
        return [_oom(e, c, last[-1])]
    if kills and c.started_at and kills[-1].at >= c.started_at:
        return [_oom_child(c, f"kernel: {kills[-1].text}")]
    if not c.oom_killed:
        return []
    event = any(x.action == "oom" and near(x.at, c.finished_at, limits.oom_window_s) for x in own_events(e, c))
    if c.exit_code != 137:
        return [_oom_child(c, f"the engine's flag OOMKilled is true, but the main process ended with {c.exit_code}")]
    sure = Certainty.CONFIRMED if event else Certainty.LIKELY
    return [
        cause(
            "oom-container", sure, f"container {c.name}", "OOMKilled is true and the exit code is 137",
            "the engine reported `oom` right before" if event else "no kernel line and no event confirm it",
            f"memory limit {c.memory_limit_bytes} bytes" if c.memory_limit_bytes else "no memory limit is set",
            decides=() if event else ("a kernel oom-kill line for this container at its end",),
        )
    ]  # fmt: skip


def _oom(e: Evidence, c: ContainerFacts, kill: KernelOom) -> Cause:
    host = known(e.host)
    what = "its own cgroup's limit" if kill.memcg else "the whole machine"
    return cause(
        "oom-container" if kill.memcg else "oom-host", Certainty.CONFIRMED,
        f"container {c.name}" if kill.memcg else e.node,
        f"kernel at {clock(kill.at)}: {kill.text}", f"out of memory: {what}",
        f"memory limit {c.memory_limit_bytes} bytes" if c.memory_limit_bytes else "no memory limit is set",
        f"{host.memory_available_bytes} of {host.memory_total_bytes} bytes are available now" if host else "",
    )  # fmt: skip


def _oom_child(c: ContainerFacts, words: str) -> Cause:
    return cause(
        "oom-child", Certainty.CONFIRMED, f"container {c.name}", words,
        "a process inside was killed for memory, not the main one",
    )  # fmt: skip


def _requests(e: Evidence, c: ContainerFacts, limits: Limits) -> list[EngineEvent]:
    wanted = [x for x in own_events(e, c) if x.action in ("kill", "stop")]
    return [x for x in wanted if near(x.at, c.finished_at, limits.stop_window_s)]


def on_purpose(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Somebody asked the engine to stop it, or to kill it."""
    asked = _requests(e, c, limits)
    signals = [x.signal for x in asked if x.action == "kill"]
    if any(x.action == "stop" for x in asked):
        sick = c.health == "unhealthy"
        words = f"a stop request around {clock(c.finished_at)} (signals: {', '.join(signals)})"
        if sick:
            log = "; ".join(h.output for h in c.health_log if h.exit) or "its check failed"
            return [
                cause(
                    "killed-by-probe", Certainty.LIKELY, f"container {c.name}", words,
                    f"its health check had failed {c.health_streak} times in a row: {log}",
                    decides=("who sent the stop: the supervisor's log, or a person",),
                )
            ]  # fmt: skip
        return [
            cause(
                "stopped-on-purpose", Certainty.CONFIRMED, f"container {c.name}", words,
                f"exit code {c.exit_code}" + (": it ignored the first signal" if c.exit_code == 137 else ""),
                innocent=True,
            )
        ]  # fmt: skip
    if signals and (unit := stopped_unit(e, c, limits)):
        words = f"{unit.name} was stopped at {clock(unit.left_at)}, before it ended, and passed signal {signals[0]} on"
        return [cause("stopped-on-purpose", Certainty.CONFIRMED, f"container {c.name}", words, innocent=True)]
    if signals:
        seen = not isinstance(e.supervisors, Unknown)  # a unit that was stopped passes its signal on like this
        return [
            cause(
                "killed-through-engine", Certainty.CONFIRMED if seen else Certainty.POSSIBLE, f"container {c.name}",
                f"the event stream shows signal {', '.join(signals)} sent through the engine, without a stop request",
                f"exit code {c.exit_code}; no kernel line about memory",
                decides=() if seen else ("whether a unit of systemd was stopped then: units were not read",),
            )
        ]  # fmt: skip
    return []


def own_end(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The main process ended by itself: its sleep ran out, it finished, or it failed."""
    life, alive = life_s(c), keep_alive((*c.entrypoint, *c.command))
    if (
        alive
        and alive.seconds
        and life is not None
        and c.exit_code == 0
        and abs(life - alive.seconds) <= limits.life_slack_s
    ):
        return [
            cause(
                "keep-alive-ended", Certainty.CONFIRMED, f"container {c.name}",
                f"its main process is a sleep of {alive.seconds:.0f} s and it lived {life:.1f} s, exit code 0",
            )
        ]  # fmt: skip
    lived = f"it lived {span(life)}" if life is not None else ""
    if c.exit_code == 0:
        return [
            cause(
                "main-exited-zero",
                Certainty.CONFIRMED,
                f"container {c.name}",
                "exit code 0",
                lived,
                last_words(e),
            )
        ]
    if 0 < c.exit_code < 125:
        code = f"exit code {c.exit_code}"
        return [cause("main-exited-error", Certainty.CONFIRMED, f"container {c.name}", code, lived, last_words(e))]
    return []


def by_code(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Ends by a signal for which nothing else was found."""
    subject, code = f"container {c.name}", c.exit_code
    if code == 135:
        small = c.shm_bytes <= limits.shm_small_bytes
        size = f"its /dev/shm has {c.shm_bytes >> 20} MiB" if c.shm_bytes else ""
        log = known(e.log)
        said = says(log or (), "container-death/bus-error")
        sure = Certainty.CONFIRMED if said else Certainty.LIKELY if small else Certainty.POSSIBLE
        other = ("use of /dev/shm right before the end", "a mapped file that was cut short, a full disk")
        words = ("exit code 135: SIGBUS", size, last_words(e))
        return [cause("bus-error", sure, subject, *words, decides=() if said else other)]
    if code in SIGNALS:
        return [cause("crashed", Certainty.CONFIRMED, subject, f"exit code {code}: {SIGNALS[code]}", last_words(e))]
    if code in (137, 143):
        return [_killed(e, c, limits)]
    return [cause("main-exited-error", Certainty.CONFIRMED, subject, f"exit code {code}", last_words(e))]


def _killed(e: Evidence, c: ContainerFacts, limits: Limits) -> Cause:
    signal = "SIGKILL" if c.exit_code == 137 else "SIGTERM"
    missing = []
    died = said_dead(e, c, limits)
    if not died:
        missing.append("the engine's events around the death (they are lost when its daemon restarts)")
    if known(e.ooms) is None and signal == "SIGKILL":
        missing.append("the kernel log: an oom-kill line for this container")
    if c.labels.get("io.kubernetes.pod.name"):
        missing.append("the pod's events: a failed liveness probe, an eviction")
    words = "no stop or kill request in the event stream" if died else ""
    memory = "no kernel line about memory for it" if known(e.ooms) is not None else ""
    sure = Certainty.POSSIBLE if missing else Certainty.CONFIRMED
    return cause(
        "killed-from-outside", sure, f"container {c.name}", f"exit code {c.exit_code}: {signal}", words, memory,
        "OOMKilled is false, which by itself proves nothing" if c.exit_code == 137 else "", decides=tuple(missing),
    )  # fmt: skip
