"""Ends by a kill for memory: by the kernel's own line about the container's cgroup, else by the engine's flag and event."""

from datetime import datetime

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.words import Limits, cause, clock, near, of_this_life, own_events
from runbooks.core.host_facts import KernelOom
from runbooks.core.reading import value_of
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause, Certainty


def _kernel_kills(e: Evidence, c: ContainerFacts) -> list[KernelOom]:
    return [k for k in value_of(e.ooms) or () if c.id in k.cgroup or (c.id[:12] in k.cgroup)]


def last_kill(e: Evidence, c: ContainerFacts, limits: Limits) -> KernelOom | None:
    """The kernel's last kill in it around its end, and in this life (its own clock is not quite the engine's)."""
    kills = [k for k in _kernel_kills(e, c) if of_this_life(c, k.at, limits.together_s)]
    return next((k for k in reversed(kills) if near(k.at, c.finished_at, limits.oom_window_s)), None)


def nameless_kills(e: Evidence, since: datetime | None, until: datetime | None = None) -> list[KernelOom]:
    """Kills in that time of which nobody says in which cgroup. None: that end is open."""
    kills = (k for k in value_of(e.ooms) or () if not k.cgroup)
    return [k for k in kills if (since is None or k.at >= since) and (until is None or k.at <= until)]


def out_of_memory(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """A kill for memory, by the kernel's own line; the flag alone proves neither that nor which process it was."""
    kills = _kernel_kills(e, c)
    last = last_kill(e, c, limits)
    if last and c.exit_code == 137:
        return [_oom(e, c, last)]
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
            f"memory limit {size(c.memory_limit_bytes)}" if c.memory_limit_bytes else "no memory limit is set",
            decides=() if event else ("a kernel oom-kill line for this container at its end",),
        )
    ]  # fmt: skip


def _oom(e: Evidence, c: ContainerFacts, kill: KernelOom) -> Cause:
    host = value_of(e.host)
    what = "its own cgroup's limit" if kill.memcg else "the whole machine"
    return cause(
        "oom-container" if kill.memcg else "oom-host", Certainty.CONFIRMED,
        f"container {c.name}" if kill.memcg else e.node,
        f"kernel at {clock(kill.at)}: {kill.text}", f"out of memory: {what}",
        f"memory limit {size(c.memory_limit_bytes)}" if c.memory_limit_bytes else "no memory limit is set",
        f"{size(host.memory_available_bytes)} of {size(host.memory_total_bytes)} are available now" if host else "",
    )  # fmt: skip


def _oom_child(c: ContainerFacts, words: str) -> Cause:
    return cause(
        "oom-child", Certainty.CONFIRMED, f"container {c.name}", words,
        "a process inside was killed for memory, not the main one",
    )  # fmt: skip
