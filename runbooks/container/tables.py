"""What a person looks at of a container: itself beside the others of its engine, its minutes before the end, and what happened."""

from collections.abc import Iterator

from runbooks.container.before import Sample
from runbooks.container.evidence import ContainerFacts, Evidence, Sibling
from runbooks.core.host_facts import Disk
from runbooks.core.reading import value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, row, since, spark, table

LAST = 15  # design: events and kernel kills, the newest ones
MIB = 1 << 20


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The containers first, the one that is asked about on top."""
    found = value_of(e.container)
    rows = [*([_one(found)] if found else []), *(_sibling(c) for c in value_or(e.siblings, ()))]
    head = "container | state | exit code | killed for memory | started | ended | restarts | policy | health | memory limit"
    yield table("Containers", head, rows)
    yield table("Before the end, as the watch recorded it", "what | window", _window(value_or(e.before, ())), in_order=True)
    yield table("What the engine recorded, the newest last", "at | event | exit code | signal", (
        row(v.at, v.action, v.exit_code, v.signal) for v in value_or(e.events, ())[-LAST:]
    ), in_order=True)  # fmt: skip
    yield table("Processes that the kernel killed for memory, the newest last", "at | pid | process | whose limit", (
        row(k.at, k.pid, k.process, f"the limit of {k.cgroup or 'its cgroup'}" if k.memcg else "the machine's memory")
        for k in value_or(e.ooms, ())[-LAST:]
    ), in_order=True)  # fmt: skip
    yield table("FUSE mounts", "path | type | where | state | error", (
        row(m.path, m.type, m.where, m.state, m.error, about=m.path, worse=(m.state != "alive") + m.wanted / 2)
        for m in value_or(e.fuse, ())
    ))  # fmt: skip
    yield table("Who else starts it again", "kind | name | pid | restart | command", (
        row(s.kind, s.name, s.pid, s.restart, s.command, about=s.name, worse=not s.rests) for s in value_or(e.supervisors, ())
    ))  # fmt: skip
    yield from _host(e)


def _one(c: ContainerFacts) -> EvidenceRow:
    restarts = f"{c.restart_policy}, at most {c.restart_max}" if c.restart_max else c.restart_policy
    limit = size(c.memory_limit_bytes) if c.memory_limit_bytes else "none"
    ended = None if c.status in ("running", "paused") else c.finished_at
    code = None if c.status in ("running", "paused", "created") else c.exit_code
    cells = (c.name or c.id[:12], c.status, code, c.oom_killed, c.started_at, ended, c.restart_count, restarts, c.health, limit)
    return row(*cells, about=(f"container {c.name}", c.name, c.id, c.id[:12]), worse=2.0)


def _sibling(c: Sibling) -> EvidenceRow:
    lives = c.status in ("running", "paused")
    code, ended = (None, None) if lives else (c.exit_code, c.finished_at)
    cells = (c.name or c.id[:12], c.status, code, c.oom_killed, c.started_at, ended, "", c.restart_policy)
    return row(*cells, about=(f"container {c.name}", c.name, c.id[:12]), worse=bool(not lives and c.exit_code))


def _window(samples: tuple[Sample, ...]) -> Iterator[EvidenceRow]:
    if len(samples) < 2:
        return
    yield row("length", f"{len(samples)} samples over {since((samples[-1].at - samples[0].at).total_seconds())}")
    total = samples[-1].memory_total_bytes / MIB
    yield row("memory available on the host", spark([s.memory_available_bytes / MIB for s in samples], "MiB", total))
    own = [s.own_memory_bytes / MIB for s in samples if s.own_memory_bytes is not None]
    limit = (samples[-1].own_limit_bytes or 0) / MIB
    yield row("its own memory", spark(own, "MiB", limit if 0 < limit < total else 0.0) or "not recorded")
    yield row("load of the host", spark([s.load for s in samples], ""))


def _host(e: Evidence) -> Iterator[EvidenceTable]:
    host = value_of(e.host)
    if host is None:
        return
    inside = value_of(e.inside)
    disks = [*host.disks, *([host.shm] if host.shm else [])]
    rows = [(d, d.path) for d in disks] + ([(inside.shm, "/dev/shm of the container")] if inside and inside.shm else [])  # noqa: S108
    yield table("Disks", "path | full | free | inodes free | read-only", (_disk(name, disk) for disk, name in rows))


def _disk(name: str, d: Disk) -> EvidenceRow:
    full = 100 * (1 - d.free_bytes / d.size_bytes) if d.size_bytes else 0.0
    return row(name, spark([full], "%", 100), size(d.free_bytes), d.inodes_free if d.inodes else "", d.read_only, about=name, worse=full)
