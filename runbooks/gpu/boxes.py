"""Containers that a plan may restart: only those of which every process was read, and who in them is at work."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from runbooks.core.args.containers import Moving
from runbooks.core.members import container
from runbooks.core.reading import value_or
from runbooks.core.sizes import size
from runbooks.core.verdict import Group
from runbooks.gpu.evidence import Inside, InsideProcess, Process
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView


@dataclass
class Boxes:
    """By the container's id."""

    causes: dict[str, set[str]] = field(default_factory=dict)  # those that may be restarted, for which causes
    moving: dict[str, tuple[Moving, ...]] = field(default_factory=dict)  # who moves in them, and that is known
    groups: list[Group] = field(default_factory=list)  # with who is at work in them, if anybody
    withheld: list[str] = field(default_factory=list)


def boxes(view: GpuView, verdicts: tuple[GpuVerdict, ...], wanted: dict[str, set[str]]) -> Boxes:
    """What a restart ends is all that runs in the container, whoever started it: an upload by `docker exec` as well."""
    found = Boxes()
    for box in sorted(wanted):
        benign = {p for v in verdicts if v.benign for p in v.pids if view.processes[p].container == box}
        if why := _why_not(view, box, benign):
            found.withheld.append(f"container {box[:12]} is not restarted: {why}")
            continue
        faulty = {p for v in verdicts if v.credible for p in v.pids}
        moves = [(p, words) for p in living(view, box) if (words := movement(view, p))]
        found.causes[box] = wanted[box]
        found.moving[box] = tuple(Moving(pid=p.pid, start_ticks=p.start_ticks) for p, _ in moves)
        at_work = tuple(f"pid {p.pid} ({p.command[:80]}) is at work: {words}" for p, words in moves if p.pid not in faulty)
        found.groups.append(Group(name=f"container {box[:12]}", members=(container(box),), ties=("one container",), at_work=at_work))
    return found


def inside(view: GpuView, box: str) -> Inside | None:
    """Its processes that are of no job and on no GPU; None where they were not read."""
    return next((i for i in value_or(view.evidence.inside, ()) if i.container == box), None)


def living(view: GpuView, box: str) -> tuple[Process | InsideProcess, ...]:
    """Who lives in it; of those that are of no job and on no GPU, who moved most."""
    seen = tuple(p for p in view.processes.values() if p.container == box and p.state not in "ZX")
    rest = inside(view, box)
    return (*seen, *(rest.most if rest else ()))


def movement(view: GpuView, p: Process | InsideProcess) -> str:
    """What of it moved above the limits of an idle process within the window, "" if nothing."""
    limits, window = view.limits, view.evidence.window_s
    tcp = p.sockets_moved_bytes or 0
    if (p.io_window_bytes or 0) > limits.idle_io_bytes_per_s * window:
        return f"it read and wrote {size(p.io_window_bytes or 0)} in {window:.0f} s"
    if tcp > limits.idle_socket_bytes_per_s * window:
        return f"its TCP sockets moved {size(tcp)} in {window:.0f} s"
    cpu = p.cpu_window_s or 0.0
    return f"it used {cpu:.2f} s of CPU in {window:.0f} s" if 100 * cpu > limits.idle_cpu_percent * window else ""


def _why_not(view: GpuView, box: str, benign: set[int]) -> str:
    if view.in_container:
        return "this node is a container itself"
    if benign:
        return f"pid {', '.join(map(str, sorted(benign)))} works in it"
    rest = inside(view, box)
    if rest is None:
        return "what else runs in it could not be read"
    if silent := sorted({*rest.unread, *_silent(view, box)}):
        return f"what pid {', '.join(map(str, silent[:3]))} in it does could not be read"
    return "" if living(view, box) else "no process of it was seen"


def _silent(view: GpuView, box: str) -> Iterator[int]:
    for p in view.processes.values():
        if p.container == box and p.state not in "ZX" and (p.cpu_window_s is None or p.io_window_bytes is None):
            yield p.pid
