"""Judges the Xids of this boot, one verdict per GPU: gone, in need of a reset, a fault of its programs, an event."""

from itertools import pairwise

from runbooks.core.distinct import names_of
from runbooks.core.gpu_set import Gpu
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import activity
from runbooks.gpu.evidence import KernelEvent
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span
from runbooks.gpu.xid_faults import CLOCK_SLACK_S, XidFault, faults

NAMED = 4  # processes in a sentence


def judge_xids(view: GpuView) -> list[GpuVerdict]:
    """One verdict per GPU that the kernel log of this boot names."""
    verdicts = [_judge(view, fault) for fault in faults(view)]
    return [v for v in verdicts if v is not None]


def _judge(view: GpuView, f: XidFault) -> GpuVerdict | None:
    if f.gpu is None and _somebody_elses(view):
        return None
    if f.root.xid == 79 or (f.action == "reboot" and f.gpu is None and view.gpu_set is not None):
        return _off_the_bus(view, f)
    if f.action in ("reset", "reboot"):
        return _needs_reset(view, f)
    if f.action == "app":
        return _application(view, f)
    sure = Certainty.LIKELY if f.action in ("support", "decode") else Certainty.RULED_OUT
    asks = ("the vendor's support, with `nvidia-bug-report.sh`",) if sure is Certainty.LIKELY else ()
    return _verdict(f, "gpu-event", sure, f.lines, asks)


def _somebody_elses(view: GpuView) -> bool:
    """In a container the kernel log is the host's: a GPU that isn't given to it is another tenant's."""
    whole = view.gpu_set is not None and bool(view.gpus) and not view.gpu_set.errors
    return view.in_container and whole and all(g.bus_id for g in view.gpus)


def _off_the_bus(view: GpuView, f: XidFault) -> GpuVerdict:
    placed = f.root.at_s is not None and view.facts is not None
    if f.gpu is not None:
        words = (*f.lines, f"yet GPU {f.gpu.index} answers now: it was re-attached, or the line is about another boot")
        return _verdict(f, "gpu-off-the-bus", Certainty.POSSIBLE, words, ("a soak test before it takes work again",))
    missing = "the driver lists no GPU there" if view.gpu_set else "whether the driver still lists it could not be read"
    sure = Certainty.CONFIRMED if placed else Certainty.LIKELY
    gpus = view.evidence.gpus
    if view.in_container and isinstance(gpus, Unknown) and gpus.reason is not UnknownReason.FAILED:  # it may be another tenant's
        sure = Certainty.POSSIBLE
    return _verdict(f, "gpu-off-the-bus", sure, (*f.lines, missing), ("`lspci -d 10de:` on the host (rev ff: dead)",))


def _needs_reset(view: GpuView, f: XidFault) -> GpuVerdict:
    words, recovered = list(f.lines), _recovered(view, f)
    if f.gpu is not None and f.gpu.recovery_action:
        words.append(f"the driver's own recovery action now: {f.gpu.recovery_action}")
    if recovered:
        return _verdict(f, "gpu-needs-reset", Certainty.RULED_OUT, (*words, recovered))
    asks: tuple[str, ...] = ("`nvidia-smi -q | grep -i recovery` (driver R565 and newer)",)
    if unread := _history_unread(view, f):
        words.append(f"it may be history: {unread} could not be read")
        return _verdict(f, "gpu-needs-reset", Certainty.POSSIBLE, words, (*asks, f"{unread}: whether a later process works on it"))
    told = f.asked or _asks_now(f)  # else it may have been reset since
    asks = asks if told else (*asks, "whether it was reset since: the driver does not say whether it still asks for one")
    return _verdict(f, "gpu-needs-reset", Certainty.CONFIRMED if told and f.root.at_s is not None else Certainty.LIKELY, words, asks)


def _asks_now(f: XidFault) -> bool:
    """Whether the driver itself says that this GPU needs something. An older driver cannot say it."""
    return f.gpu is not None and f.gpu.recovery_action.lower() not in ("", "none", "n/a")


def _history_unread(view: GpuView, f: XidFault) -> str:
    """What was not read of whether a later process works on the GPU; "" where all was, or the driver still asks for it."""
    if _asks_now(f):
        return ""
    read = {
        "uptime": view.facts is not None,
        "GPUs": view.gpu_set is not None,
        "the GPU's processes": f.gpu is None or isinstance(f.gpu.processes, Known),
        "processes": isinstance(view.evidence.processes, Known),
    }
    return next((name for name, known in read.items() if not known), "")


def _recovered(view: GpuView, f: XidFault) -> str:
    """Why the event is history: the driver asks for nothing, or a process that began after it works on the GPU."""
    if f.gpu is None or f.root.at_s is None or view.facts is None:
        return ""
    if f.gpu.recovery_action.lower() == "none":
        return "the driver asks for no recovery now: history"
    return _works_since(view, f, f.root.at_s)


def _works_since(view: GpuView, f: XidFault, at_s: float) -> str:
    """A process that began after that and works on the GPU; "" where none was seen."""
    for pid, held in view.holdings.items():
        p = view.processes[pid]
        began = view.facts.uptime_s - p.age_s if view.facts else at_s
        if began > at_s and any(f.gpu and h.gpu.uuid == f.gpu.uuid for h in held) and activity(view, p).moves:
            return f"pid {pid}, started {span(began - at_s)} after it, works on this GPU: history"
    return ""


def _application(view: GpuView, f: XidFault) -> GpuVerdict:
    """Of all processes that such a line names: one that is still there comes before one that cannot be read, and that before the ended."""
    alive = {e: _alive(view, e, f.gpu) for e in f.app}
    present = sorted((e for e in reversed(f.app) if alive[e]), key=lambda e: _moves(view, e))
    if not present:
        open_ = next((e for e in f.app if alive[e] is None), None)
        if open_ is not None:
            return _verdict(f, "gpu-application-fault", Certainty.POSSIBLE, f.lines, (f"whether pid {open_.pid} still lives",))
        return _ended(view, f)
    there, pid = present[0], present[0].pid
    if _moves(view, there):
        words = (*f.lines, f"pid {pid} works on: history")
        return _verdict(f, "gpu-application-fault", Certainty.RULED_OUT, words)
    if not isinstance(view.evidence.processes, Known):
        asks = (f"whether pid {pid} is still the same process, and whether it works",)
        return _verdict(f, "gpu-application-fault", Certainty.POSSIBLE, (*f.lines, f"a pid {pid} is on the GPU"), asks)
    words = (*f.lines, f"pid {pid} ({there.process}) is still there: its CUDA context can't recover by itself")
    return _verdict(f, "gpu-application-fault", Certainty.LIKELY, words, (f"the log of pid {pid}: its first CUDA error",))


def _moves(view: GpuView, e: KernelEvent) -> bool:
    """Whether the process that the line names works."""
    process = view.processes.get(e.pid or 0)
    return process is not None and bool(activity(view, process).moves)


_ASK_CARD = "the same program on another card: if it fails on this one only, have the card diagnosed (`dcgmi diag -r 3`)"


def _ended(view: GpuView, f: XidFault) -> GpuVerdict:
    """One process that ended is history. Where it came again, of one process after the other, it may come again now."""
    again = _again(view, f)
    if len(again) < 2:
        gone = f"pid {f.root.pid} has ended" if f.root.pid else "it names no process"
        return _verdict(f, "gpu-application-fault", Certainty.RULED_OUT, (*f.lines, f"{gone}: history, not a present fault"))
    first, last = again[0].at_s or 0.0, again[-1].at_s or 0.0
    codes = " and ".join(dict.fromkeys(str(e.xid) for e in again))
    who = names_of([str(e.pid) for e in again], NAMED)
    words = [*f.lines, f"Xid {codes} came {len(again)} times in {span(last - first)}, each of another process: pid {who}. All have ended"]
    if since := _works_since(view, f, last):
        return _verdict(f, "gpu-application-fault", Certainty.RULED_OUT, (*words, since))
    words += [f"the last one came {span(view.facts.uptime_s - last)} ago"] if view.facts else []
    gap = max((b.at_s or 0.0) - (a.at_s or 0.0) for a, b in pairwise(again))
    asks, unread = (_ASK_CARD, "the first CUDA error in the programs' own logs"), _history_unread(view, f)
    sure = Certainty.LIKELY if gap <= view.limits.repeat_s and not unread else Certainty.POSSIBLE
    return _verdict(f, "gpu-application-fault", sure, words, (*asks, f"{unread}: whether a later process works on it") if unread else asks)


def _again(view: GpuView, f: XidFault) -> list[KernelEvent]:
    """The first line of each process, later by more than the start of one launcher's ranks takes: what one program does at once is one."""
    found: list[KernelEvent] = []
    for e in f.app:
        apart = not found or (e.at_s or 0.0) - (found[-1].at_s or 0.0) > view.limits.together_s
        if e.pid and e.at_s is not None and apart and e.pid not in {x.pid for x in found}:
            found.append(e)
    return found


def _alive(view: GpuView, e: KernelEvent, gpu: Gpu | None) -> bool | None:
    """Whether the process that the line names is still the same one; None where that could not be read."""
    if e.pid is None:
        return False
    process = view.processes.get(e.pid)
    if process is not None and not view.in_container and view.facts is not None:
        same = e.at_s is None or view.facts.uptime_s - process.age_s <= e.at_s + CLOCK_SLACK_S
        return same and process.state not in "ZX"
    if gpu is not None and isinstance(gpu.processes, Known):
        return any(g.pid == e.pid for g in gpu.processes.value)
    return None if not isinstance(view.evidence.processes, Known) or view.in_container else False


def _verdict(
    f: XidFault, slug: str, certainty: Certainty, words: "tuple[str, ...] | list[str]", asks: tuple[str, ...] = ()
) -> GpuVerdict:
    where = f"GPU {f.gpu.index} ({f.bus})" if f.gpu else f"GPU at {f.bus or 'an unnamed address'}"
    uuids = (f.gpu.uuid,) if f.gpu else ()
    most = Certainty.POSSIBLE if f.bus else Certainty.LIKELY  # of an address that is not told: such a GPU answers
    if f.open and certainty is not Certainty.RULED_OUT:
        certainty, asks = max(certainty, most, key=list(Certainty).index), (f"which GPU it is: {f.open}", *asks)
    return GpuVerdict(slug, certainty, where, tuple(words), asks, gpus=uuids, bus=f.bus, reset=f.action == "reset")
