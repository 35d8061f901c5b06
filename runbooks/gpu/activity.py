"""Does a process do anything? What moved within the window, what stood still, what could not be read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from runbooks.core.gpu_set import Gpu
from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.gpu.evidence import Process
from runbooks.gpu.view import GpuView, span

CHECKPOINT = re.compile(
    r"ckpt|checkpoint|\.(pt|pth|safetensors|distcp|npz|h5|tar|tmp|part)\b|/step[-_]?\d", re.IGNORECASE
)


class Sign(StrEnum):
    """What shows that a process works."""

    CPU = "cpu"
    IO = "io"
    WRITING = "writing"
    SOCKETS = "sockets"
    CHILDREN = "children"
    GPU = "gpu"
    PROGRESS = "progress"


@dataclass(frozen=True)
class SignReading:
    """One sign, as a sentence with its number. moved None: not readable."""

    sign: Sign
    moved: bool | None
    words: str


@dataclass(frozen=True)
class Activity:
    """The signs of one process and its children."""

    moves: tuple[str, ...]  # sentences with the number that moved; any of them means: at work
    signs: frozenset[Sign]  # what moved
    still: tuple[str, ...]  # sentences with the number that did not move
    unread: tuple[str, ...]  # signs that could not be read: never "still"
    unknown: frozenset[Sign]  # these signs
    bridged_s: float  # seconds over which the earlier reading shows nothing moved; 0: not shown
    bridge: tuple[str, ...]  # how that is known, or why it is not

    @property
    def idle(self) -> bool:
        """Nothing that was read moved."""
        return not self.moves


def activity(view: GpuView, p: Process) -> Activity:
    """The signs of `p`, over the window and since the earlier reading."""
    parts = (_io, _sockets, _children, _gpu_use, _progress, _cpu)  # CPU time tells least of what it does
    looks = [look for part in parts for look in part(view, p)]
    moved = [look for look in looks if look.moved]
    seconds, notes = (0.0, ()) if moved else _bridge(view, p)
    return Activity(
        moves=tuple(look.words for look in moved),
        signs=frozenset(look.sign for look in moved),
        still=tuple(look.words for look in looks if look.moved is False),
        unread=tuple(look.words for look in looks if look.moved is None),
        unknown=frozenset(look.sign for look in looks if look.moved is None),
        bridged_s=seconds,
        bridge=notes,
    )


def _rate(view: GpuView, count: float) -> float:
    return count / view.evidence.window_s if view.evidence.window_s > 0 else float("inf") if count else 0.0


def _cpu(view: GpuView, p: Process) -> Iterator[SignReading]:
    if p.cpu_window_s is None:
        yield SignReading(Sign.CPU, None, "its CPU time was not readable")
        return
    percent = 100 * _rate(view, p.cpu_window_s)
    words = f"it used {p.cpu_window_s:.2f} s of CPU in {view.evidence.window_s:.0f} s ({percent:.1f} %)"
    yield SignReading(Sign.CPU, percent > view.limits.idle_cpu_percent, words)


def _io(view: GpuView, p: Process) -> Iterator[SignReading]:
    if p.io_window_bytes is None:
        yield SignReading(Sign.IO, None, "its I/O counters were not readable (another user's process needs root)")
    else:
        moved = _rate(view, p.io_window_bytes) > view.limits.idle_io_bytes_per_s
        yield SignReading(Sign.IO, moved, f"it read and wrote {size(p.io_window_bytes)} meanwhile")
    if p.writing:
        whole = any(CHECKPOINT.search(w) for w in p.writing)  # a heartbeat line now and then is not work
        much = None if p.io_window_bytes is None else _rate(view, p.io_window_bytes) > view.limits.idle_io_bytes_per_s
        yield SignReading(Sign.WRITING, whole or much, f"it writes {', '.join(p.writing[:3])}")


def _sockets(view: GpuView, p: Process) -> Iterator[SignReading]:
    if p.sockets_moved_bytes is None:
        yield SignReading(Sign.SOCKETS, None, "its TCP counters were not readable")
        return
    moved = _rate(view, p.sockets_moved_bytes) > view.limits.idle_socket_bytes_per_s
    yield SignReading(Sign.SOCKETS, moved, f"its TCP sockets moved {size(p.sockets_moved_bytes)}")


def _children(view: GpuView, p: Process) -> Iterator[SignReading]:
    if 100 * _rate(view, p.children_cpu_window_s) > view.limits.idle_cpu_percent:
        yield SignReading(Sign.CHILDREN, True, f"its children used {p.children_cpu_window_s:.2f} s of CPU")
    if _rate(view, p.children_io_window_bytes) > view.limits.idle_io_bytes_per_s:
        yield SignReading(Sign.CHILDREN, True, f"its children read and wrote {size(p.children_io_window_bytes)}")


def _gpu_use(view: GpuView, p: Process) -> Iterator[SignReading]:
    for held in view.holdings.get(p.pid, ()):
        gpu, sole = held.gpu, isinstance(held.gpu.processes, Known) and len(held.gpu.processes.value) == 1
        device = [s.sm_percent for s in gpu.samples]
        own = _believable(view, held.listed.sm_percent, device)
        yield _use(gpu, [*own, *device] if sole else list(own) or device)  # alone on it: all of it is its doing
    if p.nvidia_fds and p.pid not in view.holdings:
        for gpu in view.gpus:
            device = [s.sm_percent for s in gpu.samples]
            if device and max(device) > 0:
                yield SignReading(Sign.GPU, None, f"GPU {gpu.index} runs kernels; whether its own can't be seen here")
            else:
                yield _use(gpu, device)


def _believable(view: GpuView, own: tuple[float, ...], device: list[float]) -> list[float]:
    """Samples of a process without those that its whole GPU contradicts: the driver's buffer may be minutes old.

    Recorded on an H100: an orphan asleep, the device at 0 %, and 97 % still in the buffer for the process.
    """
    if len(device) < view.limits.min_samples:
        return list(own)
    return [v for v in own if v <= max(view.limits.low_gpu_percent, *device)]


def _use(gpu: Gpu, values: list[float]) -> SignReading:
    if not values:
        return SignReading(Sign.GPU, None, f"no utilisation samples of GPU {gpu.index}")
    if max(values) > 0:
        words = f"GPU {gpu.index} ran kernels: SM use up to {max(values):.0f} % in {len(values)} samples"
        return SignReading(Sign.GPU, True, words)
    return SignReading(Sign.GPU, False, f"GPU {gpu.index} ran no kernel of it: 0 % in all of {len(values)} samples")


def _progress(view: GpuView, p: Process) -> Iterator[SignReading]:
    marks = view.marks(p.job)
    if marks is None:
        yield SignReading(Sign.PROGRESS, None, f"the progress of job {p.job} was not readable")
        return
    for m in marks:
        age = "" if m.changed_s_ago is None else f", last changed {span(m.changed_s_ago)} ago"
        if m.after != m.before:
            yield SignReading(Sign.PROGRESS, True, f"{m.path} went from {m.before} to {m.after} {m.unit}")
        else:
            fresh = m.changed_s_ago is not None and m.changed_s_ago < view.limits.idle_s
            yield SignReading(Sign.PROGRESS, fresh, f"{m.path} stands at {m.after} {m.unit}{age}")


def _bridge(view: GpuView, p: Process) -> tuple[float, tuple[str, ...]]:
    """Seconds that the earlier reading covers with nothing moved, and the sentences that say so."""
    if view.earlier is None:
        return 0.0, ("there is no earlier reading of this boot to compare with",)
    notes = [_bridge_one(view, q) for q in (p, *view.family_down(p.pid)) if q.state not in "ZX"]
    notes += [_bridge_mark(view, p)]
    said = tuple(n for _, n in notes if n)
    return (view.gap_s if all(ok for ok, _ in notes) else 0.0), said


def _bridge_one(view: GpuView, q: Process) -> tuple[bool, str]:
    old = view.before(q)
    if old is None:
        return False, f"pid {q.pid} (start {q.start_ticks}) is not in the earlier reading"
    if old.state == "T" and q.state != "T":
        return False, f"pid {q.pid} was stopped at the earlier reading: that it did nothing meanwhile says nothing of now"
    now_io = None if q.read_bytes is None or q.written_bytes is None else q.read_bytes + q.written_bytes
    if old.cpu_s is None or q.cpu_s is None or old.io_bytes is None or now_io is None:
        return False, f"pid {q.pid}: CPU or I/O counters are missing in one of the two readings"
    cpu, io = q.cpu_s - old.cpu_s, now_io - old.io_bytes
    if cpu < 0 or io < 0:
        return False, f"pid {q.pid}: counters ran backwards; the readings can't be compared"
    since = f"in the {span(view.gap_s)} since {_which(view)}"
    words = f"pid {q.pid} used {cpu:.1f} s of CPU and {size(io)} of I/O {since}"
    quiet = 100 * cpu / view.gap_s <= view.limits.idle_cpu_percent
    return quiet and io / view.gap_s <= view.limits.idle_io_bytes_per_s, words


def _bridge_mark(view: GpuView, p: Process) -> tuple[bool, str]:
    """Progress since the earlier reading. A job without configured progress has none to show."""
    marks = view.marks(p.job)
    if marks is None:
        return False, ""
    for m in marks:
        old = view.mark_before(m)
        if old is not None and old.after != m.after:
            return False, f"{m.path} went from {old.after} to {m.after} {m.unit} since {_which(view)}"
        if old is None and (m.changed_s_ago is None or m.changed_s_ago < view.gap_s):
            return False, f"{m.path} is not in the earlier reading"
    names = ", ".join(m.path for m in marks)
    return True, f"no progress in {names} since {_which(view)}" if names else ""


def _which(view: GpuView) -> str:
    return f"report {view.earlier.report}" if view.earlier else ""


def device_busy(view: GpuView, gpu: Gpu) -> bool:
    """Every sample of the window at or above the busy limit, and enough samples."""
    values = [s.sm_percent for s in gpu.samples]
    return len(values) >= view.limits.min_samples and min(values) >= view.limits.busy_percent


def table_says_none(gpu: Gpu) -> bool:
    """The driver says in words that no process is on it."""
    return isinstance(gpu.processes, Known) and not gpu.processes.value
