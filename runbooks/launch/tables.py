"""What a person looks at before a distributed launch: the nodes beside each other, who reaches whom, and what holds the port."""

from collections.abc import Iterator

from runbooks.core.reading import Known, Unknown, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, table
from runbooks.launch.evidence import Evidence, LaunchNodeFacts, LaunchNodeView


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The nodes first, so that what differs stands below each other."""
    head = "node | GPUs | driver | versions not read | clock | interfaces | /dev/shm | locked memory | RDMA"
    yield table("Nodes", head, map(_node, e.nodes))
    nodes = [n.facts.value for n in e.nodes if isinstance(n.facts, Known)]
    packages = dict.fromkeys(name for n in nodes for name in n.versions)
    yield table("Versions", "package | nodes", (_versions(name, nodes) for name in packages))
    yield table("Who reaches whom", "from | to | address | answer", (
        row(n.node, p.node, p.address, p.error or "reached", about=(f"{n.node} to {p.node}", p.address), worse=bool(p.error))
        for n in nodes for p in n.peers
    ))  # fmt: skip
    yield table("Who has the launch's port", "node | pid | command", (
        row(n.node, h.pid, h.command, about=f"pid {h.pid}") for n in nodes for h in n.holders
    ))  # fmt: skip
    yield table("Launchers that run already", "node | pid | run | backend | endpoint | Slurm job", (
        row(n.node, x.pid, x.launch.run_id, x.launch.backend, x.launch.endpoint, x.slurm_job, about=f"pid {x.pid}", worse=x.listens)
        for n in nodes for x in n.launchers
    ))  # fmt: skip
    yield table("Settings of the nodes", "node | name | value", (
        row(n.node, name, value) for n in nodes for name, value in sorted(n.env.items())
    ))  # fmt: skip


def _node(view: LaunchNodeView) -> EvidenceRow:
    if not isinstance(view.facts, Known):
        why = view.facts.why if isinstance(view.facts, Unknown) else view.facts.proof
        return row(view.node, f"not read: {why}", about=view.node, worse=1e9)
    n = view.facts.value
    ways = counted(f"{i.name} {counted(i.addresses, 2)}".strip() for i in n.interfaces.value if i.up and not i.loopback) \
        if isinstance(n.interfaces, Known) else "not read"  # fmt: skip
    locked = "unlimited" if n.memlock_bytes is None else size(n.memlock_bytes)
    shm = size(n.shm_bytes) if n.shm_bytes is not None else ""
    cells = (n.node, _gpus(n), n.driver, n.versions_error, f"{n.clock_skew_s:+.1f} s", ways, shm, locked, counted(n.rdma_devices))
    return row(*cells, about=n.node, worse=abs(n.clock_skew_s))


def _versions(name: str, nodes: list[LaunchNodeFacts]) -> EvidenceRow:
    """Nodes that have the same stand together."""
    found = [n.versions.get(name, "none") for n in nodes]
    told = (f"{counted(n.node for n in nodes if n.versions.get(name, 'none') == version)}: {version}" for version in dict.fromkeys(found))
    return row(name, "; ".join(told), about=name, worse=len(set(found)))


def _gpus(n: LaunchNodeFacts) -> str:
    if isinstance(n.gpus, Unknown):
        return "not read"
    models = value_or(n.gpus, ())
    return counted(f"{models.count(m)} × {m}" for m in dict.fromkeys(models)) or "none"
