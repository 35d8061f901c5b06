"""Xids of this boot by GPU: the root before what follows it, by NVIDIA's table, which Xid 154 overrides."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from runbooks.core.gpu_set import Gpu
from runbooks.core.knowledge import load_table
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import activity
from runbooks.gpu.evidence import KernelEvent
from runbooks.gpu.parsers.kernel_log import bus_key, recovery_action, recovery_code, says_nonfatal
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span

CLOCK_SLACK_S = 5.0  # design: the kernel log's clock and /proc/uptime drift apart; two processes of one number begin minutes apart
SEVERITY = ("none", "app", "decode", "support", "reset", "reboot")


@cache
def xid_table() -> dict[str, Any]:
    """runbooks/knowledge/xids.yaml, read once."""
    return load_table("xids")


@dataclass(frozen=True)
class XidFault:
    """What the kernel log says about one GPU."""

    bus: str
    root: KernelEvent
    action: str  # none | app | decode | support | reset | reboot
    lines: tuple[str, ...]
    gpu: Gpu | None  # None: the driver doesn't list it (any more), or which it is was not said
    asked: bool = False  # the driver itself asked for it, in its last line of Xid 154
    open: str = ""  # why it is not known which GPU this is


def judge_xids(view: GpuView) -> list[GpuVerdict]:
    """One verdict per GPU that the kernel log of this boot names."""
    verdicts = [_judge(view, fault) for fault in faults(view)]
    return [v for v in verdicts if v is not None]


def events_of_this_boot(view: GpuView) -> tuple[KernelEvent, ...]:
    """Numbered events, oldest first. One later than the uptime is of an earlier boot and is left out."""
    known = view.evidence.kernel
    if not isinstance(known, Known):
        return ()
    uptime = view.facts.uptime_s if view.facts else float("inf")
    mine = [e for e in known.value if e.xid is not None and (e.at_s is None or -1 <= e.at_s <= uptime + CLOCK_SLACK_S)]
    return tuple(sorted(mine, key=lambda e: (e.at_s is None, e.at_s or 0.0)))


def faults(view: GpuView) -> list[XidFault]:
    """Events grouped by GPU, the root found, the action decided."""
    by_bus: dict[str, list[KernelEvent]] = {}
    for event in events_of_this_boot(view):
        by_bus.setdefault(bus_key(event.bus_id), []).append(event)
    listed = {bus_key(g.bus_id): g for g in view.gpus if g.bus_id}
    found = [_fault(bus, events, listed.get(bus)) for bus, events in sorted(by_bus.items())]
    last = "" not in by_bus  # else a later line that asks for nothing may be one that names no GPU
    return [replace(f, open=_open(view, f), asked=f.asked and last) for f in found]


def _open(view: GpuView, f: XidFault) -> str:
    """What is not said is not "not listed": a line may name no GPU, and a GPU may not tell its address."""
    if not f.bus:
        return "the kernel's line names no GPU"
    hidden = [str(g.index) for g in view.gpus if not g.bus_id]
    return f"GPU {', '.join(hidden)} does not tell its address and may be that one" if hidden and f.gpu is None else ""


def _fault(bus: str, events: list[KernelEvent], gpu: Gpu | None) -> XidFault:
    roots = [e for e in events if entry(e)["role"] == "root"]
    worst = max((_action(e) for e in roots or events), key=SEVERITY.index)
    root = next(e for e in (roots or events) if _action(e) == worst)
    asked = next((e.text for e in reversed(events) if e.xid == 154), "")
    override = recovery_action(asked)
    action = _asked_for(override, recovery_code(asked)) if override else worst
    lines = [_line(e) for e in _first_of_each(events, root)]
    lines += [f"Xid 154 asks for: {override} (it overrides the table's '{worst}')"] if override else []
    return XidFault(bus, root, action, tuple(lines), gpu, asked=bool(override))


def _asked_for(words: str, code: int | None) -> str:
    """By the words that are known, else by the number; what neither tells is a question to the vendor."""
    table = xid_table()
    return str(table["recovery_actions"].get(words.lower()) or table["recovery_codes"].get(code, "support"))


def entry(event: KernelEvent) -> dict[str, Any]:
    """The table's row for an event; a code that is not listed is informational."""
    blank = {"meaning": "not in the table", "action": "none", "role": "root", "nvidia": "none given", "gpud": "none given"}
    found: dict[str, Any] = xid_table()["xids"].get(event.xid, blank)
    return found


def _action(event: KernelEvent) -> str:
    action = str(entry(event)["action"])
    if action == "decode" and event.xid != 74:  # NVLink5: the line itself says fatal or not
        return "none" if says_nonfatal(event.text) else "reset"
    return "none" if action == "obey" else action


def _first_of_each(events: list[KernelEvent], root: KernelEvent) -> list[KernelEvent]:
    seen: dict[int | None, KernelEvent] = {root.xid: root}
    for e in events:
        seen.setdefault(e.xid, e)
    return list(seen.values())


def _line(e: KernelEvent) -> str:
    row = entry(e)
    when = "at an unknown time" if e.at_s is None else f"{span(e.at_s)} after boot"
    role = ", which usually follows another" if row["role"] == "follows" else ""
    words = f"Xid {e.xid} ({row['meaning']}{role}) {when}. NVIDIA says {row['nvidia']}"
    return words + (f"; gpud says {row['gpud']}" if row["gpud"] != row["nvidia"] else "")


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
    for pid, held in view.holdings.items():
        p = view.processes[pid]
        began = view.facts.uptime_s - p.age_s
        if began > f.root.at_s and any(h.gpu.uuid == f.gpu.uuid for h in held) and activity(view, p).moves:
            return f"pid {pid}, started {span(began - f.root.at_s)} after it, works on this GPU: history"
    return ""


def _application(view: GpuView, f: XidFault) -> GpuVerdict:
    pid, alive = f.root.pid, _alive(view, f)
    if alive is None:
        return _verdict(f, "gpu-application-fault", Certainty.POSSIBLE, f.lines, (f"whether pid {pid} still lives",))
    if not alive:
        gone = f"pid {pid} has ended" if pid else "it names no process"
        return _verdict(
            f, "gpu-application-fault", Certainty.RULED_OUT, (*f.lines, f"{gone}: history, not a present fault")
        )
    process = view.processes.get(pid or 0)
    if process is not None and activity(view, process).moves:
        words = (*f.lines, f"pid {pid} works on: history")
        return _verdict(f, "gpu-application-fault", Certainty.RULED_OUT, words)
    if not isinstance(view.evidence.processes, Known):
        asks = (f"whether pid {pid} is still the same process, and whether it works",)
        return _verdict(f, "gpu-application-fault", Certainty.POSSIBLE, (*f.lines, f"a pid {pid} is on the GPU"), asks)
    words = (*f.lines, f"pid {pid} ({f.root.process}) is still there: its CUDA context can't recover by itself")
    return _verdict(
        f, "gpu-application-fault", Certainty.LIKELY, words, (f"the log of pid {pid}: its first CUDA error",)
    )


def _alive(view: GpuView, f: XidFault) -> bool | None:
    """Whether the process that the line names is still the same one; None where that could not be read."""
    if f.root.pid is None:
        return False
    process = view.processes.get(f.root.pid)
    if process is not None and not view.in_container and view.facts is not None:
        same = f.root.at_s is None or view.facts.uptime_s - process.age_s <= f.root.at_s + CLOCK_SLACK_S
        return same and process.state not in "ZX"
    if f.gpu is not None and isinstance(f.gpu.processes, Known):
        return any(g.pid == f.root.pid for g in f.gpu.processes.value)
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
