"""What a person looks at when memory ran out: the messages, the GPUs, the machine, the groups with a limit, and the kernel's kills."""

from collections.abc import Iterator

from runbooks.core.gpu_table import gpus_table
from runbooks.core.reading import Known, value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, spark, table
from runbooks.memory.evidence import Evidence, HostMemory
from runbooks.memory.parsers.kernel_ooms import HostOom

LAST = 15  # design: kernel kills and messages, the newest ones


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The job's own messages first, then the memory that there is."""
    log = value_of(e.log)
    yield table("What CUDA said, the newest last", "GPU | rank | asked for | free | of | this process | held elsewhere", (
        row(f"GPU {o.gpu}", o.rank, size(o.tried), size(o.free), size(o.total), size(o.mine), size(o.elsewhere), about=f"GPU {o.gpu}")
        for o in (log.cuda[-LAST:] if log else ())
    ), in_order=True)  # fmt: skip
    if isinstance(e.gpus, Known):
        yield gpus_table(e.gpus.value)
        yield _holders(e)
    if isinstance(e.host, Known):
        yield table("The machine's memory", "what | used | of", _host(e.host.value))
    yield table("Groups with a limit", "group | used | used of allowed | kills | new kills", (
        row(g.path, _full(g.used, g.limit), f"{size(g.used)} of {size(g.limit)}", g.kills or "", g.new_kills, about=g.path,
            worse=bool(g.new_kills) + (g.used / g.limit if g.limit else 0.0))
        for g in value_or(e.groups, ())
    ))  # fmt: skip
    yield table("Processes that the kernel killed for memory, the newest last", "at | pid | process | held | whose limit", (
        row(k.at, k.pid if k.pid is not None else "not named", k.name, size(k.rss) if k.rss else "not told", _whose(k),
            about=f"pid {k.pid}" if k.pid is not None else "")
        for k in value_or(e.killed, ())[-LAST:]
    ), in_order=True)  # fmt: skip


def _holders(e: Evidence) -> EvidenceTable:
    """Who the driver names on the GPUs now."""
    commands, found = value_or(e.commands, {}), value_of(e.gpus)
    rows = tuple(
        row(p.pid, f"GPU {g.index}", size(p.used_bytes) if p.used_bytes is not None else "", commands.get(p.pid, "not visible here"),
            about=f"pid {p.pid}", worse=float(p.used_bytes or 0))
        for g in (found.gpus if found else ()) for p in value_or(g.processes, ())
    )  # fmt: skip
    return table("Processes on the GPUs", "pid | GPU | GPU memory | command", rows)


def _host(m: HostMemory) -> Iterator[EvidenceRow]:
    used = m.total - m.available
    yield row("the machine", _full(used, m.total), f"{size(m.total)}, {size(m.available)} available")
    if m.cgroup_limit:
        told = counted((size(m.cgroup_limit), f"{size(m.cgroup_used)} used" if m.cgroup_used is not None else ""))
        yield row("the tightest group above", _full(m.cgroup_used or 0, m.cgroup_limit), told)
    if m.swap_free:
        yield row("swap", "", f"{size(m.swap_free)} free")


def _whose(kill: HostOom) -> str:
    if kill.cgroup:
        return f"the limit of {kill.group or 'its group'}"
    return "the machine's memory" if kill.told else "not told"


def _full(used: int, limit: int) -> str:
    return spark([100 * used / limit], "%", 100.0) if limit else ""
