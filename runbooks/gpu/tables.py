"""What a person looks at of a node with GPUs: the GPUs, who is on them, and what moves."""

from collections.abc import Iterable, Iterator

from runbooks.core.gpu_table import gpus_table
from runbooks.core.reading import Absent, Known, value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, since, spark, table
from runbooks.gpu.evidence import Elsewhere, Evidence, Process

LAST = 15  # design: kernel lines, the newest ones


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The GPUs first."""
    if isinstance(e.gpus, Known):
        yield gpus_table(e.gpus.value, e.window_s)
    yield _processes(e)
    yield table("Signs of progress", "job | kind | place | in the window | changed ago", (
        row(m.job, m.kind, m.path, f"{m.before} to {m.after} {m.unit}", since(m.changed_s_ago), worse=m.before >= m.after)
        for m in value_or(e.progress, ())
    ))  # fmt: skip
    yield table("GPUs inside containers", "container | name | the driver's answer", (
        row(c.container[:12], c.name, c.nvml or "its GPUs answer", about=(c.container, c.container[:12], c.name), worse=bool(c.nvml))
        for c in value_or(e.containers, ())
    ))  # fmt: skip
    yield table("Other nodes of the job", "node | GPUs | busy | processes", (_node(n) for n in value_or(e.elsewhere, ())))
    leader = value_of(e.leader)
    yield table("What the leader counts", "node | jobs | GPU use, % | seen ago", (
        row(p.node, p.jobs, p.gpu_percent, since(p.last_seen_s), about=p.node, worse=p.node == e.node)
        for p in (leader.peers if leader else ())
    ))  # fmt: skip
    events = value_or(e.kernel, ())[-LAST:]
    lines = tuple(row(since(k.at_s), k.xid, k.process or k.pid, k.text) for k in events)
    yield table("Kernel log on GPUs, the newest last", "after the boot | Xid | process | line", lines, in_order=True)


def _processes(e: Evidence) -> EvidenceTable:
    """Processes that were read, and those that only the driver lists."""
    held: dict[int, list[tuple[int, int | None]]] = {}
    found = value_of(e.gpus)
    for gpu in found.gpus if found else ():
        for listed in value_or(gpu.processes, ()):
            held.setdefault(listed.pid, []).append((gpu.index, listed.used_bytes))
    read = {p.pid: p for p in value_or(e.processes, ())}
    rows = [_process(p, held.get(pid, [])) for pid, p in read.items()]
    rows += [row(pid, *_on(on), "not visible here", about=f"pid {pid}", worse=1.0) for pid, on in held.items() if pid not in read]
    head = "pid | GPUs | GPU memory | state | CPU | I/O | age | user | job | command"
    return table(f"Processes over {since(e.window_s)}", head, rows)


def _on(on: Iterable[tuple[int, int | None]]) -> tuple[str, str]:
    held = list(on)
    known = [used for _, used in held if used is not None]
    return counted(str(index) for index, _ in held), size(sum(known)) if known else ""


def _process(p: Process, on: list[tuple[int, int | None]]) -> EvidenceRow:
    cpu = f"{p.cpu_window_s:.2f} s" if p.cpu_window_s is not None else ""
    io = size(p.io_window_bytes) if p.io_window_bytes is not None else ""
    state = "".join(dict.fromkeys(p.states or p.state)) + (f" {p.wchan}" if p.wchan and p.state == "D" else "")
    cells = (p.pid, *_on(on), state, cpu, io, since(p.age_s), p.user or p.uid, p.job, p.command)
    idle = bool(on) and not (p.cpu_window_s or p.io_window_bytes)
    return row(*cells, about=f"pid {p.pid}", worse=idle + bool(on) / 2)


def _node(n: Elsewhere) -> EvidenceRow:
    if not isinstance(n.gpus, Known):
        return row(n.node, n.gpus.proof if isinstance(n.gpus, Absent) else n.gpus.why, about=n.node, worse=1.0)
    busy = [max((s.sm_percent for s in g.samples), default=0.0) for g in n.gpus.value.gpus]
    return row(n.node, len(busy), spark(busy, "%", 100.0), len(value_or(n.processes, ())), about=n.node)
