"""Processes that a signal can't end: defunct ones (dead) and those in uninterruptible sleep (in the kernel)."""

import re

from runbooks.core.verdict import Certainty
from runbooks.gpu.benign import STORAGE
from runbooks.gpu.boxes import inside, living
from runbooks.gpu.evidence import Process
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, size, span

DRIVER_WAIT = re.compile(r"nvidia|^_?nv|uvm|^rm_|os_acquire|rwsem_down|_nv\d+rm")
DRIVER_TOOL = re.compile(
    r"(^|/)(nvidia-smi|nvidia-persistenced|nvidia-docker-plugin|nv-hostengine|dcgmi?|nvidia-fabricmanager)\b"
)
LOOKS = 5  # gpud calls a process stuck after five looks


def judge_defunct(view: GpuView, p: Process) -> GpuVerdict | None:
    """State Z: dead; what matters is who should reap it and who holds its memory. None: it matters to nobody yet."""
    live = live_family(view, p)
    always = len(p.states) >= 2 and set(p.states) <= {"Z", "X"}
    old = view.before(p)
    since = view.gap_s if old is not None and old.state == "Z" else 0.0
    looks = max(len(p.states), 1)
    keeps = _keeps(view, p)
    alone = "" if keeps else " and holds no memory itself"
    words = [f"state Z at {looks} looks over {span(view.evidence.window_s)}: it is dead{alone}", *keeps]
    words += [f"state Z already {span(since)} ago"] if since else []
    if p.ppid:
        words.append(f"its parent pid {p.ppid} ({p.parent_command or 'command unknown'}) has not reaped it")
    if live or p.threads > 1:
        return _with_family(view, p, live, always, words)
    if keeps:
        return _keeps_memory(view, p, always, since, words)
    sure = always and since >= view.limits.defunct_s
    if not (sure or p.job or p.pid in view.holdings):
        return None  # ended a moment ago, or a container's first process reaps slowly: it holds nothing
    asks = (f"a reading {span(view.limits.defunct_s)} later: a parent that is only slow reaps within seconds",)
    certainty = Certainty.CONFIRMED if sure else Certainty.LIKELY if always else Certainty.POSSIBLE
    box = p.container if sure and not _others_in(view, p) else ""
    return GpuVerdict("defunct-unreaped", certainty, f"pid {p.pid}", tuple(words), asks, pids=(p.pid,), container=box)


def _keeps(view: GpuView, p: Process) -> list[str]:
    """What the driver still lists for it."""
    held = [h for h in view.holdings.get(p.pid, ()) if h.listed.used_bytes != 0]
    sizes = [(h.gpu.index, "an unknown amount" if h.listed.used_bytes is None else size(h.listed.used_bytes)) for h in held]
    return [f"the driver still lists it with {amount} of GPU {index}'s memory" for index, amount in sizes]


def _keeps_memory(view: GpuView, p: Process, always: bool, since: float, words: list[str]) -> GpuVerdict:
    """Dead, and its memory is not free: the driver frees it late, or something shares its context."""
    asks = (
        f"the same reading {span(view.limits.vanish_s)} later: the driver frees the memory of a dead process late",
        "who else has the device files open, as root on the host: `fuser -v /dev/nvidia*` (a child, MPS, CUDA IPC)",
    )
    sure = Certainty.CONFIRMED if always and since >= view.limits.vanish_s else Certainty.LIKELY if always else Certainty.POSSIBLE
    gpus = tuple(h.gpu.uuid for h in view.holdings.get(p.pid, ()))
    return GpuVerdict("defunct-keeps-memory", sure, view.label(p), tuple(words), asks, pids=(p.pid,), gpus=gpus)


def _with_family(view: GpuView, p: Process, live: list[Process], always: bool, words: list[str]) -> GpuVerdict:
    for q in live:
        held = view.held_bytes(q.pid)
        amount = "an unknown amount" if held is None else size(held)
        words.append(
            f"live pid {q.pid} ({q.command[:60]}) holds {amount} of GPU memory"
            if q.pid in view.holdings
            else f"live pid {q.pid} ({q.command[:60]}) has its GPU device files open"
        )
    if p.threads > 1:
        words.append(f"only its first thread has ended: {p.threads - 1} more live on and keep its memory")
    asks = tuple(f"whether pid {q.pid} works: it is judged by itself below" for q in live)
    gpus = tuple(h.gpu.uuid for q in (p, *live) for h in view.holdings.get(q.pid, ()))
    certainty = Certainty.CONFIRMED if always else Certainty.LIKELY
    return GpuVerdict(
        "defunct-parent-live-children",
        certainty,
        f"pid {p.pid}",
        tuple(words),
        asks,
        pids=(p.pid,),
        gpus=gpus,
    )


def live_family(view: GpuView, p: Process) -> list[Process]:
    """Live children, and live members of its session or container, that hold a GPU."""

    def kin(q: Process) -> bool:
        return (
            q.pid in p.live_children
            or q.ppid == p.pid
            or q.sid == p.sid
            or bool(p.container and q.container == p.container)
        )

    every = (q for q in view.processes.values() if q.pid != p.pid and q.state not in "ZX" and kin(q))
    return sorted((q for q in every if q.pid in view.holdings or q.nvidia_fds), key=lambda q: q.pid)


def _others_in(view: GpuView, p: Process) -> bool:
    """Live processes in its container besides the parent that fails to reap it."""
    rest = inside(view, p.container)
    return any(q.pid != p.ppid for q in living(view, p.container)) or (rest is not None and rest.others > len(rest.most))


def judge_uninterruptible(view: GpuView, p: Process) -> GpuVerdict | None:
    """State D at every look (or threads in D): in the driver it is a fault, in storage it is a wait."""
    always = p.state == "D" and set(p.states or ("D",)) == {"D"}
    if not always and not (p.threads_d and in_driver(p)):
        return None
    if STORAGE.search(p.wchan):
        return _waits_for_storage(view, p)
    if not in_driver(p):
        return None
    old = view.before(p)
    since = view.gap_s if old is not None and old.state == "D" else 0.0
    span_s = max(since, view.evidence.window_s if len(p.states) >= LOOKS else 0.0)
    sure = always and p.cpu_window_s == 0 and span_s >= view.limits.uninterruptible_s
    words = [f"state {p.state} at {max(len(p.states), 1)} looks over {span(view.evidence.window_s)}"]
    words += [f"state D already {span(since)} ago"] if since else []
    words += (
        [f"it waits in {p.wchan}"] if p.wchan not in ("", "0") else ["where in the kernel it waits was not readable"]
    )
    words += [f"{p.threads_d} of its {p.threads} threads are in state D"] if p.threads_d else []
    asks = ("the kernel log for an Xid or a PCI error", f"`cat /proc/{p.pid}/stack` as root")
    gpus = tuple(h.gpu.uuid for h in view.holdings.get(p.pid, ()))
    certainty = (
        Certainty.CONFIRMED if sure else Certainty.LIKELY if always and len(p.states) >= 2 else Certainty.POSSIBLE
    )
    return GpuVerdict("driver-stuck", certainty, view.label(p), tuple(words), asks, pids=(p.pid,), gpus=gpus)


def in_driver(p: Process) -> bool:
    """Whether its wait is in the NVIDIA driver, as far as wchan, open device files and its name tell."""
    if STORAGE.search(p.wchan):
        return False
    named = p.wchan not in ("", "0")
    return bool(DRIVER_WAIT.search(p.wchan) if named else p.nvidia_fds) or bool(DRIVER_TOOL.search(p.command))


def _waits_for_storage(view: GpuView, p: Process) -> GpuVerdict:
    words = (f"state D in {p.wchan}: it waits for storage, not for the driver",)
    asks = ("whether the mount answers: `timeout 5 stat -f <mount>`",)
    gpus = tuple(h.gpu.uuid for h in view.holdings.get(p.pid, ()))
    return GpuVerdict(
        "waits-for-storage",
        Certainty.LIKELY,
        view.label(p),
        words,
        asks,
        benign=True,
        pids=(p.pid,),
        gpus=gpus,
    )
