"""What a person looks at of a rendezvous: its runs, who takes part in each and whether it still beats, agents, ports and ways."""

from collections.abc import Iterator

from runbooks.core.reading import Known, Unknown, value_of, value_or
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, since, table
from runbooks.rendezvous.evidence import Evidence, NodeFacts
from runbooks.rendezvous.parsers.etcd_v2 import RunKeys
from runbooks.rendezvous.parsers.rdzv_state import DynamicState, Member
from runbooks.rendezvous.runs import subject


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The runs first, then who takes part in them."""
    reads = value_of(e.runs)
    runs = reads.second if reads else ()
    yield table("Runs", "run | backend | state | round | taking part | waiting | master", map(_run, runs))
    apart = f" in {since(reads.apart_s)}" if reads else ""
    before = {(r.run, r.backend): r for r in reads.first} if reads else {}
    yield table("Who takes part", f"member | run | role | last heartbeat | moved{apart}", (
        one for run in runs for one in _members(run, before.get((run.run, run.backend)))
    ))  # fmt: skip
    nodes = [n.facts.value for n in e.nodes if isinstance(n.facts, Known)]
    yield table("Agents", "agent | node | run | backend | endpoint | nodes | workers | state | age", (
        row(f"pid {a.pid}", n.node, a.launch.run_id, a.launch.backend, a.launch.endpoint, f"{a.launch.min_nodes} to {a.launch.max_nodes}",
            len(a.workers), a.state, since(max(0.0, n.clock_s - a.started_s)),
            about=f"pid {a.pid} on {n.node}", worse=(a.state not in "RS") + (not a.workers) / 2)
        for n in nodes for a in n.agents
    ))  # fmt: skip
    yield table("Workers", "worker | node | run | rank | master | agent | state", (
        row(f"pid {w.pid}", n.node, w.run_id or "none: started without torchrun", w.env.get("RANK", ""), w.env.get("MASTER_ADDR", ""),
            "gone" if w.orphan else w.ppid, w.state, about=f"pid {w.pid} on {n.node}", worse=w.orphan + (w.state not in "RS") / 2)
        for n in nodes for w in n.workers if not w.loader
    ))  # fmt: skip
    lost = (row(n.node, n.facts.why, about=n.node, worse=1e9) for n in e.nodes if isinstance(n.facts, Unknown))
    head = "node | clock | agents | workers | processes that could not be read | seen from"
    yield table("Nodes", head, (*map(_node, nodes), *lost))
    yield table("Ports and ways", "from | to | answer", _ways(nodes))
    yield from _etcd(e)


def _run(run: RunKeys) -> EvidenceRow:
    state = run.state
    if state is None:
        cells: tuple[object, ...] = (run.run, run.backend, f"unreadable: {run.unreadable}" if run.unreadable else "no rendezvous key")
    elif isinstance(state, DynamicState):
        word = "closed" if state.closed else "complete" if state.complete else "open"
        cells = (run.run, run.backend, word, state.round, len(state.participants), len(state.wait_list), run.master)
    else:
        cells = (run.run, run.backend, state.status, state.version, len(state.participants), state.waiting, run.master)
    return row(*cells, about=(subject(run), f"run {run.run}"), worse=bool(run.unreadable))


def _members(run: RunKeys, earlier: RunKeys | None) -> Iterator[EvidenceRow]:
    state = run.state
    if isinstance(state, DynamicState):
        beats, ranks = {b.member: b.at for b in state.beats}, {s.member: s.rank for s in state.participants}
        old = {b.member: b.at for b in earlier.state.beats} if earlier and isinstance(earlier.state, DynamicState) else {}
        for member in state.members:
            at = beats.get(member)
            moved = at is not None and member in old and at != old[member]
            role = f"rank {ranks[member]}" if member in ranks else _waits(member, state)
            cells = (member.label, run.run, role, at, moved if member in old else "seen once")
            yield row(*cells, about=member.label, worse=2.0 if at is None else float(not moved))
    elif state is not None:
        for rank in state.participants:
            there = rank in run.ranks
            yield row(f"rank {rank}", run.run, "takes part", "", "its key is there" if there else "its key has expired", worse=not there)


def _waits(member: Member, state: DynamicState) -> str:
    return "waits" if member in state.wait_list else "spare" if member in state.redundancy_list else "only a heartbeat"


def _node(n: NodeFacts) -> EvidenceRow:
    cells = (n.node, f"{n.skew_s:+.1f} s", len(n.agents), len(n.workers), n.hidden or "", n.inside)
    return row(*cells, about=n.node, worse=abs(n.skew_s))


def _ways(nodes: list[NodeFacts]) -> Iterator[EvidenceRow]:
    for n in nodes:
        for port in n.ports:
            who = counted((f"pid {h.pid} {h.command}" for h in port.holders), 2) or counted(f"pid {p}" for p in port.listeners)
            said = f"{who} listens" if who else "somebody listens" if port.open else "nobody listens"
            more = f", {port.time_wait} in TIME_WAIT" if port.time_wait else ""
            yield row(n.node, f"own port {port.port}", f"{said}{more}", about=f"port {port.port} on {n.node}")
        for way in n.reach:
            about = (f"{way.address} from {n.node}", way.address)
            yield row(n.node, way.address, way.error or "reached", about=about, worse=bool(way.error))


def _etcd(e: Evidence) -> Iterator[EvidenceTable]:
    stores = tuple(
        row(s.endpoint, "answers" if s.answers else "no answer", s.listener, about=s.endpoint, worse=not s.answers) for s in e.stores
    )
    yield table("Stores", "endpoint | answer | who listens", stores)
    if isinstance(e.etcd, Known):
        f = e.etcd.value
        disk = f"99 % of its writes below {since(f.fsync_p99_s)}" if f.fsync_p99_s is not None else ""
        cells = (f.endpoint, f.healthy, f.version, f.v2, value_or(f.alarms, ()), disk)
        yield table("etcd", "endpoint | healthy | version | v2 | alarms | disk", (row(*cells, about=f.endpoint),))
