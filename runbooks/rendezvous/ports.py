"""Judges who holds the port that a run needs."""


from runbooks.core.program import program
from runbooks.core.times import utc
from runbooks.core.verdict import Cause
from runbooks.parsers.address import address_of
from runbooks.rendezvous.causes import benign, confirmed, likely
from runbooks.rendezvous.evidence import Agent, Evidence, NodeFacts, Port
from runbooks.rendezvous.launches import live_agents
from runbooks.rendezvous.life import known_nodes
from runbooks.rendezvous.workers import live_workers
from runbooks.triage.text import says


def port_causes(evidence: Evidence, age_s: float) -> list[Cause]:
    """Every port on every node that somebody wants and cannot have."""
    return [c for n in known_nodes(evidence) for p in n.ports if not _of_env_job(p, n, evidence) for c in _port(p, n, evidence, age_s)]


def _of_env_job(port: Port, node: NodeFacts, evidence: Evidence) -> bool:
    """A port that was looked at only because rank 0 of a job without torchrun names it: nobody else wants it."""
    asked = {evidence.port, *(int(address_of(e, 29400).rpartition(":")[2]) for e in evidence.endpoints if not e.startswith("http"))}
    wants = {w.env.get("MASTER_PORT") for w in node.workers if w.by_env}
    return port.port not in asked and str(port.port) in wants and not any(a.launch.master_port == port.port for a in node.agents)


def holder_agent(port: Port, node: NodeFacts) -> Agent | None:
    """The agent that listens on the port."""
    return next((a for a in node.agents if a.pid in port.listeners and a.state not in "ZX"), None)


def leftover_agent(port: Port, node: NodeFacts, evidence: Evidence, age_s: float) -> Agent | None:
    """The agent that holds the port for a run that goes on (or should start) without it. None: nobody may be ended.

    Its launcher is gone, it has no worker and no peer, nothing of its run works anywhere. And either a newer agent of
    its id has been beside it for `age_s`, or the port is asked for by the same id and it waits longer than it may.
    """
    old = holder_agent(port, node)
    if old is None or old.ppid != 1 or old.workers or port.established:
        return None
    if len(known_nodes(evidence)) < len(evidence.nodes) or any(n.hidden for n in known_nodes(evidence)):
        return None
    run = old.launch.run_id
    if any(w.run_id == run for w in live_workers(evidence)):
        return None
    same = [a for a in live_agents(evidence) if a.launch.run_id == run and a is not old]
    if any(a.node != old.node for a in same):
        return None  # it may be what they wait for
    newer = [a for a in same if old.started_s < a.started_s <= node.clock_s - age_s]
    asked = _asked(evidence) and run in (evidence.run, *evidence.known_runs)
    waited = node.clock_s - old.started_s > old.launch.join_s + age_s
    return old if newer or (asked and waited and not same) else None


def named(port: Port) -> list[str]:
    """Whoever listens: pid, start, what it runs."""
    by_pid = {h.pid: h for h in port.holders}
    words = []
    for pid in port.listeners:
        h = by_pid.get(pid)
        since = utc(h.started_s) if h else ""
        words.append(f"pid {pid}" + (f" ({program(h.command)}, since {since})" if h else ""))
    return words


def _asked(evidence: Evidence) -> bool:
    """Whether somebody was refused the port."""
    return says(evidence.symptom, "distributed-setup/port-taken")


def _port(port: Port, node: NodeFacts, evidence: Evidence, age_s: float) -> list[Cause]:
    where = f"port {port.port} on {node.node}"
    asked = _asked(evidence)
    if not port.open:
        if port.time_wait and asked:
            words = f"nobody listens; {port.time_wait} old connections are in TIME_WAIT and vanish within 60 s"
            return [likely("port-time-wait", where, words, decides=("whether a bind works after a minute",))]
        return []
    old = leftover_agent(port, node, evidence, age_s)
    if old is not None:
        words = f"agent pid {old.pid} (id {old.launch.run_id}) listens without worker, peer or launcher"
        return [
            confirmed("port-old-agent", where, words, "its run needs the port, and nothing of the run works anywhere")
        ]
    return _other(port, node, where, asked)


def _boss(port: Port, node: NodeFacts) -> Agent | None:
    """The living agent whose living worker, or a process below it, listens on the port."""
    parents = {w.pid: w.ppid for w in node.workers if w.state not in "ZX"}
    agents = {a.pid: a for a in node.agents if a.state not in "ZX"}
    for pid in port.listeners:
        seen: set[int] = set()
        while pid in parents and pid not in seen:
            seen.add(pid)
            pid = parents[pid]
        if pid in agents and seen:
            return agents[pid]
    return None


def _mates(one: Agent, other: Agent) -> bool | None:
    """Two agents of one static job on this machine: rank 0 has the port for all of them. None: the script of one is not said."""
    a, b = one.launch, other.launch
    if (a.master_addr, a.max_nodes, a.backend) != (b.master_addr, b.max_nodes, b.backend) or a.backend != "static":
        return False
    if a.node_rank == b.node_rank:
        return False
    return a.script == b.script if a.script and b.script else None


def _other(port: Port, node: NodeFacts, where: str, asked: bool) -> list[Cause]:
    agent = holder_agent(port, node)
    of = agent or _boss(port, node)
    others = {a.pid: _mates(a, of) if of else False for a in node.agents if a.launch.master_port == port.port and a is not of}
    wants = [a for a in node.agents if others.get(a.pid, True) is not True]
    if not asked and not wants:
        return []
    if agent is not None and not wants and agent.ppid == 1 and not agent.workers:
        words = f"agent pid {agent.pid} (id {agent.launch.run_id}) listens without a worker; its launcher is gone"
        return [likely("port-old-agent", where, words, decides=("whether its job still waits for nodes",))]
    if not asked and agent is not None:
        return [benign("live-run", where, f"held by agent pid {agent.pid}, id {agent.launch.run_id}")]
    if not (holders := ", ".join(named(port))):
        words = "a process that this user may not see listens on it"
        return [likely("port-other-job", where, words, decides=("whose process listens there: `ss -ltnp` as root on that node",))]
    if not asked and all(others[a.pid] is None for a in wants):
        check = (f"whether pid {', '.join(str(a.pid) for a in wants)}, which was given that port, is of the same job: its script",)
        return [likely("port-other-job", where, f"{holders} listens on it", decides=check)]
    return [confirmed("port-other-job", where, f"{holders} listens on it")]
