"""Xids of this boot by GPU: which of them is the root, and what NVIDIA's table or Xid 154 asks for."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from runbooks.core.gpu_set import Gpu
from runbooks.core.knowledge import load_table
from runbooks.core.reading import Known
from runbooks.gpu.evidence import KernelEvent
from runbooks.gpu.parsers.kernel_log import bus_key, recovery_action, recovery_code, says_nonfatal
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
    app: tuple[KernelEvent, ...]  # those of a program that may be started again, oldest first; at least the root
    asked: bool = False  # the driver itself asked for it, in its last line of Xid 154
    open: str = ""  # why it is not known which GPU this is


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
    app = tuple(e for e in roots if _action(e) == "app") or (root,)
    return XidFault(bus, root, action, tuple(lines), gpu, app, asked=bool(override))


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
