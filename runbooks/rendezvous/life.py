"""Is anything of a run alive? Proofs of life, and what keeps death from being proven; neither is death."""

import re
from datetime import datetime

from runbooks.core.base import Frozen
from runbooks.core.reading import Known
from runbooks.core.same_process import Numbered, Same, same_process
from runbooks.parsers.address import address_of, host_in, is_loopback
from runbooks.rendezvous.evidence import Agent, Evidence, NodeFacts, Pid, Worker
from runbooks.rendezvous.parsers.etcd_v2 import Backend, RunKeys
from runbooks.rendezvous.parsers.rdzv_state import DynamicState, Member

_PLAIN_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:@+=-]{0,199}$")
_SLACK_S = 2.0  # design: start times come in clock ticks and beats in whole writes; what is left open is *unknown*, never dead


class Life(Frozen):
    """What was found about one run."""

    alive: tuple[str, ...]  # sentences: each proves that something lives
    unsure: tuple[str, ...]  # sentences: each keeps death from being proven
    agents: tuple[Agent, ...] = ()
    workers: tuple[Worker, ...] = ()
    beating: tuple[Member, ...] = ()  # members whose heartbeat moved
    still: tuple[Member, ...] = ()  # members whose heartbeat did not move and whose process is gone

    @property
    def dead(self) -> bool:
        """Proven: nothing lives, and nothing was left unread."""
        return not self.alive and not self.unsure


def known_nodes(evidence: Evidence) -> tuple[NodeFacts, ...]:
    """The nodes that could be read."""
    return tuple(v.facts.value for v in evidence.nodes if isinstance(v.facts, Known))


def hosts_of(addr: str, nodes: tuple[NodeFacts, ...]) -> tuple[NodeFacts, ...]:
    """The nodes that answer to that name or address."""
    return tuple(n for n in nodes if addr.lower() in {name.lower() for name in n.names})


def owners_of(host: str, evidence: Evidence) -> tuple[NodeFacts, ...]:
    """The nodes that answer to that name; where none does, those that have an address to which a node resolves it."""
    asked = [r for n in known_nodes(evidence) for r in n.reach if host_in(r.address) == host]
    there = {ip for r in asked for ip in r.resolves if not is_loopback(ip)}
    return hosts_of(host, nodes := known_nodes(evidence)) or tuple(n for n in nodes if there & {*n.names, *n.own_addresses})


def place_of(endpoint: str, evidence: Evidence) -> str:
    """The endpoint under one name, whichever of its machine's names it was given: `boot id:port`; `host:port` where nobody owns it."""
    host, _, port = (at := address_of(endpoint, 29400)).rpartition(":")
    owners = {n.boot_id for n in owners_of(host.strip("[]"), evidence)}
    return f"{owners.pop()}:{port}" if len(owners) == 1 and not is_loopback(host) else at


def agents_of(run: RunKeys, evidence: Evidence) -> tuple[Agent, ...]:
    """Live agents that use this id and could mean this backend."""
    found = [a for n in known_nodes(evidence) for a in n.agents if a.state not in "ZX"]
    return tuple(a for a in found if a.launch.run_id == run.run and _may_be(a, run.backend))


def _may_be(agent: Agent, backend: Backend) -> bool:
    return agent.launch.backend == backend


def workers_of(run: RunKeys, evidence: Evidence) -> tuple[Worker, ...]:
    """Live workers of this id, but for those whose living agent belongs to another backend."""
    out = []
    for node in known_nodes(evidence):
        other = {a.pid for a in node.agents if a.state not in "ZX" and not _may_be(a, run.backend)}
        out += [w for w in node.workers if w.run_id == run.run and w.state not in "ZX" and w.ppid not in other]
    return tuple(out)


def processes_of(run: RunKeys, evidence: Evidence) -> tuple[str, ...]:
    """Sentences about every process of that run which lives, or may: agents, workers, members under their number."""
    members = run.state.members if isinstance(run.state, DynamicState) else ()
    there = [m.label for m in members if _process(m, run, evidence) is not Same.NO]
    return (
        *_agent_words(agents_of(run, evidence)),
        *_worker_words(workers_of(run, evidence)),
        *(f"the process of {label} may exist" for label in there),
    )


def life_of(run: str, backend: Backend, evidence: Evidence) -> Life:
    """Everything that says whether that run lives. Both reads and every configured node are needed."""
    first, second = _both(run, backend, evidence)
    latest = second or first or RunKeys(run=run, backend=backend)
    agents, workers = agents_of(latest, evidence), workers_of(latest, evidence)
    members = latest.state.members if isinstance(latest.state, DynamicState) else ()
    beating = tuple(m for m in members if _moved(m, first, second))
    found = {m: _process(m, latest, evidence) for m in members}
    lives = {m for m in members if found[m] is Same.YES}
    return Life(
        alive=(*_agent_words(agents), *_worker_words(workers), *_beat_words(first, second, beating, lives)),
        unsure=(
            *_unsure(latest, first, second, evidence, members),
            *(f"a process with the number {m.pid} runs on {m.addr}; whether it is {m.label} is not known"
              for m in members if found[m] is Same.UNKNOWN),
        ),
        agents=agents,
        workers=workers,
        beating=beating,
        still=tuple(m for m in members if m not in beating and found[m] is Same.NO),
    )


def _both(run: str, backend: Backend, evidence: Evidence) -> tuple[RunKeys | None, RunKeys | None]:
    if not isinstance(evidence.runs, Known):
        return None, None
    reads = evidence.runs.value
    return _pick(reads.first, run, backend), _pick(reads.second, run, backend)


def _pick(runs: tuple[RunKeys, ...], run: str, backend: Backend) -> RunKeys | None:
    return next((r for r in runs if r.run == run and r.backend == backend), None)


def _beat(member: Member, run: RunKeys | None) -> datetime | None:
    if run is None or not isinstance(run.state, DynamicState):
        return None
    return next((b.at for b in run.state.beats if b.member == member), None)


def _moved(member: Member, first: RunKeys | None, second: RunKeys | None) -> bool:
    """Their own clock against their own clock: newer in the second read, or new there."""
    before, after = _beat(member, first), _beat(member, second)
    return after is not None and (before is None or after != before)


def _process(member: Member, run: RunKeys, evidence: Evidence) -> Same:
    """Whether the member's process is there: its number on its host, in the host's own PID namespace, begun before its last beat.

    Torch writes no namespace (dynamic_rendezvous.py: getfqdn, getpid): a number of another one on that host is unknown."""
    beat = _beat(member, run)
    nodes = hosts_of(member.addr, known_nodes(evidence))
    host = nodes[0].boot_id if len({n.boot_id for n in nodes}) == 1 else ""
    agents = [a for a in agents_of(run, evidence) if a.node in {n.node for n in nodes}]
    if host and any(a.own_pid == member.pid for a in agents):
        return Same.YES  # its command line names the run: the namespace needs no proof
    found = {_is(member, host, beat, node, there) for node in nodes for there in node.pids if there.pid == member.pid}
    return next((s for s in (Same.YES, Same.UNKNOWN) if s in found), Same.NO)


def _is(member: Member, host: str, beat: datetime | None, node: NodeFacts, there: Pid) -> Same:
    here = there.namespace if there.namespace == node.namespace else None
    named = Numbered(pid=member.pid, host=host, namespace=here, seen_s=beat.timestamp() if beat else None)
    same = same_process(
        named, Numbered(pid=there.pid, host=node.boot_id, namespace=there.namespace, began_s=there.started_s), _SLACK_S
    )
    return Same.UNKNOWN if same is Same.NO and there.python else same  # its clock may have been set since


def _agent_words(agents: tuple[Agent, ...]) -> tuple[str, ...]:
    return tuple(
        f"agent pid {a.pid} on {a.node} runs with --rdzv-id {a.launch.run_id} (state {a.state})" for a in agents
    )


def _worker_words(workers: tuple[Worker, ...]) -> tuple[str, ...]:
    words = [
        f"worker pid {w.pid} on {w.node} (RANK {w.env.get('RANK', '?')}) is alive"
        + (", its agent is gone" if w.orphan else "")
        for w in workers
        if not w.loader
    ]
    return (*words, *(f"pid {w.pid} on {w.node}, a worker's child, is alive" for w in workers if w.loader))


def _beat_words(
    first: RunKeys | None, second: RunKeys | None, beating: tuple[Member, ...], lives: set[Member]
) -> tuple[str, ...]:
    words = [f"the heartbeat of {m.label} moved between the two reads" for m in beating]
    words += [f"process {m.pid} of {m.label} exists on its host" for m in sorted(lives, key=lambda m: m.label)]
    if second and second.ranks:
        words.append(f"the 10 s keep-alive of rank {', '.join(map(str, second.ranks))} is there")
    if first and second and _indexes(first) != _indexes(second):
        words.append("its keys changed between the two reads")
    return tuple(words)


def _indexes(run: RunKeys) -> dict[str, int]:
    """Keys that somebody writes; those that only expire (a time to live of seconds) do not count."""
    return {k.key: k.modified for k in run.keys if not k.dir and (k.ttl_s is None or k.ttl_s > 60)}


def _unsure(
    run: RunKeys,
    first: RunKeys | None,
    second: RunKeys | None,
    evidence: Evidence,
    members: tuple[Member, ...],
) -> tuple[str, ...]:
    words = []
    if not isinstance(evidence.configured, Known):
        words.append("this rendezvous is not in the fleet file, so nobody knows which nodes may have joined it")
    if not isinstance(evidence.runs, Known) or second is None:
        words.append("the keys were not read twice")
    elif evidence.runs.value.apart_s < 3 * evidence.keep_alive_s:
        words.append(f"the two reads were only {evidence.runs.value.apart_s:.0f} s apart, less than three beats")
    elif first is None:
        words.append("the run appeared between the two reads")
    words += [f"node {v.node} could not be read" for v in evidence.nodes if not isinstance(v.facts, Known)]
    words += [
        f"{n.hidden} processes on {n.node} hide their environment from this user"
        for n in known_nodes(evidence)
        if n.hidden
    ]
    words += from_inside(evidence)
    if not evidence.nodes:
        words.append("no node was read")
    return (*words, *_strangers(run, members, evidence), *_odd(run))


def from_inside(evidence: Evidence) -> list[str]:
    """Nodes of which only a container's view was read, or of which that was not said; none where the fleet file says that it is all."""
    nodes = () if evidence.contained else known_nodes(evidence)
    said = [f"{n.node} was read from inside a container ({n.inside}): processes beside it are not seen" for n in nodes if n.inside]
    return [*said, *(f"whether {n.node} was read from inside a container was not said" for n in nodes if n.inside is None)]


def _strangers(run: RunKeys, members: tuple[Member, ...], evidence: Evidence) -> tuple[str, ...]:
    """Hosts that nobody looked at. A host that calls itself localhost is only known where etcd is on loopback too."""
    nodes = known_nodes(evidence)
    here = all(is_loopback(address_of(e).rsplit(":", 1)[0]) for e in evidence.endpoints)
    master = (run.master or "").rsplit(":", 1)[0]
    words = ["on which host its rank 0 was, was not said"] if run.master is None else []
    for addr in sorted({*(m.addr for m in members), *([master] if master else [])}):
        if is_loopback(addr) and not here:
            words.append(f"participant host {addr} names no machine")
        elif not hosts_of(addr, nodes):
            words.append(f"participant host {addr} is not a node of this rendezvous")
        elif not is_loopback(addr) and len({n.boot_id for n in hosts_of(addr, nodes)}) > 1:
            words.append(f"several machines answer to the name {addr}, so there may be one more that was not looked at")
    return tuple(words)


def _odd(run: RunKeys) -> tuple[str, ...]:
    words = []
    if run.unreadable:
        words.append(f"its state cannot be read ({run.unreadable}), so its participants are not known")
    if run.ambiguous:
        words.append(f"{len(run.ambiguous)} store keys could belong to another run id as well")
    if not _PLAIN_ID.match(run.run):
        words.append("its run id has characters that make key names ambiguous")
    return tuple(words)
