"""Judges how the agents were started, against each other: ids, settings, addresses, restart counts."""

from itertools import groupby

from runbooks.core.verdict import Cause
from runbooks.parsers.address import host_port, is_loopback
from runbooks.parsers.torchrun_cmdline import DEFAULT_RUN_ID
from runbooks.rendezvous.bare import bare_causes
from runbooks.rendezvous.causes import confirmed, likely
from runbooks.rendezvous.evidence import Agent, Evidence, Worker
from runbooks.rendezvous.life import known_nodes, place_of
from runbooks.rendezvous.reach import unreached
from runbooks.rendezvous.workers import live_workers

MASTER_PORT = 29500  # torchrun's own default
ONE_JOB = "which script each of them starts: whether they are one job"
NO_ENDPOINT = "localhost"  # what c10d takes then; a master address is not looked at


def live_agents(evidence: Evidence) -> list[Agent]:
    """Agents on all nodes that could be read."""
    return [a for n in known_nodes(evidence) for a in n.agents if a.state not in "ZX"]


def launch_causes(evidence: Evidence) -> list[Cause]:
    """Every cause that the command lines and environments show."""
    agents = live_agents(evidence)
    causes = []
    meeting = [a for a in agents if a.launch.backend != "static" and not a.launch.standalone]
    for run, group in groupby(sorted(meeting, key=lambda a: a.launch.run_id), key=lambda a: a.launch.run_id):
        mine = list(group)
        causes += _one_id(run, mine, evidence) or _min_above(run, mine, evidence)
    causes += _different_ids(meeting)
    causes += _static(agents, evidence)
    causes += _loopback(agents, evidence)
    return [*causes, *_workers(evidence)]


def _who(agents: list[Agent]) -> str:
    return ", ".join(f"pid {a.pid} on {a.node}" for a in agents)


def _one_id(run: str, agents: list[Agent], evidence: Evidence) -> list[Cause]:
    """Agents that share an id: are they one job? Two names of one machine are one endpoint."""
    endpoints = {(a.launch.backend, place_of(a.launch.endpoint, evidence)) for a in agents}
    scripts = sorted({a.launch.script for a in agents} - {""})
    told, subject = all(a.launch.script for a in agents), f"run {run}"  # else they may be two jobs
    if len(scripts) > 1 and len(endpoints) < len(agents):
        words = [f"{_who(agents)} share the id {run!r} and run different scripts: {', '.join(scripts)}"]
        if run == DEFAULT_RUN_ID:
            words.append("'none' is what torchrun uses when --rdzv-id is not given")
        return [confirmed("run-id-collision", subject, *words)]
    if len({a.launch.script_digest for a in agents}) > 1 and run == DEFAULT_RUN_ID and len(endpoints) < len(agents):
        what = scripts[0] if scripts else "their script"
        words = [f"{_who(agents)} use the default id 'none' for {what} with different arguments"]
        return [likely("run-id-collision", subject, *words, decides=("whether they are meant to be one job",))]
    if len(endpoints) > 1 and len(agents) > 1 and len(scripts) < 2:
        said = "; ".join(f"{a.node}: {a.launch.backend} {a.launch.endpoint}" for a in agents)
        return [_differ(subject, f"one id, different endpoints: {said}", told)]
    if len({(a.launch.min_nodes, a.launch.max_nodes) for a in agents}) > 1:
        said = "; ".join(f"{a.node}: --nnodes={a.launch.min_nodes}:{a.launch.max_nodes}" for a in agents)
        return [_differ(subject, f"one id, different --nnodes: {said}", told)]
    return []


def _differ(subject: str, words: str, told: bool) -> Cause:
    """Settings that must be alike in one job. `told`: which script each agent starts is known, so that they are one job."""
    return confirmed("settings-differ", subject, words) if told else likely("settings-differ", subject, words, decides=(ONE_JOB,))


def _different_ids(agents: list[Agent]) -> list[Cause]:
    """The same script at the same endpoint under ids that differ, each short of nodes."""
    causes = []
    for script, endpoint in sorted({(a.launch.script, a.launch.endpoint) for a in agents if a.launch.script}):
        mine = [a for a in agents if (a.launch.script, a.launch.endpoint) == (script, endpoint)]
        by_id = {r: [a for a in mine if a.launch.run_id == r] for r in sorted({a.launch.run_id for a in mine})}
        if len(by_id) > 1 and all(_short(found) for found in by_id.values()):
            words = "; ".join(f"{_who(found)}: --rdzv-id={r}" for r, found in by_id.items())
            where = f"{script} at {endpoint}"
            told = all(a.launch.script for a in agents if a.launch.endpoint == endpoint)
            causes.append(_differ(where, f"ids differ, each waits alone: {words}", told))
    return causes


def _short(agents: list[Agent]) -> bool:
    """Fewer than they ask for, and none has started a worker."""
    return len(agents) < agents[0].launch.min_nodes and not any(a.workers for a in agents)


def meets_at(agent: Agent) -> str:
    """The endpoint of its store as it was given: host:port; "" where it has none."""
    launch = agent.launch
    if launch.endpoint or launch.backend != "static" or not launch.master_addr:
        return launch.endpoint
    return host_port(launch.master_addr, launch.master_port or MASTER_PORT)


def _static(agents: list[Agent], evidence: Evidence) -> list[Cause]:
    """Agents of one script at one master address, each told its own rank: do their ranks and counts fit together?"""
    boots = {n.node: n.boot_id for n in known_nodes(evidence)}
    places: dict[str, list[Agent]] = {}
    for a in agents:
        host = meets_at(a).rpartition(":")[0]
        if a.launch.backend == "static" and not a.launch.standalone and host and not is_loopback(host.strip("[]")):
            places.setdefault(place_of(meets_at(a), evidence), []).append(a)
    groups = [g for mine in places.values() for g in _by_script(mine)]
    return [c for mine in groups if max(a.launch.max_nodes for a in mine) > 1 for c in _ranks(mine, boots)]


def _by_script(agents: list[Agent]) -> list[list[Agent]]:
    """Those of one script; one that does not say its script may be of each."""
    said = sorted({a.launch.script for a in agents} - {""}) or [""]
    return [[a for a in agents if a.launch.script in (script, "")] for script in said]


def _ranks(agents: list[Agent], boots: dict[str, str]) -> list[Cause]:
    told = all(a.launch.script for a in agents)
    subject = f"{max(a.launch.script for a in agents) or 'a job'} at {meets_at(agents[0])}"
    if len({(a.launch.min_nodes, a.launch.max_nodes) for a in agents}) > 1:
        said = "; ".join(f"{a.node}: --nnodes={a.launch.min_nodes}:{a.launch.max_nodes}" for a in agents)
        return [_differ(subject, f"one master address, different --nnodes: {said}", told)]
    numbered = [a for a in agents if a.launch.node_rank.isdecimal()]
    beyond = [a for a in numbered if int(a.launch.node_rank) >= a.launch.max_nodes]
    words = [f"pid {a.pid} on {a.node}: --node-rank={a.launch.node_rank} of {a.launch.max_nodes} nodes, which count from 0" for a in beyond]
    causes = [confirmed("settings-differ", subject, *words)] if words else []
    for rank in sorted({int(a.launch.node_rank) for a in numbered}):
        same = [a for a in numbered if int(a.launch.node_rank) == rank]
        if len({boots.get(a.node) or a.node for a in same}) < 2:
            continue  # on one machine it is an earlier start: its port is judged
        said = f"{_who(same)} all have node rank {rank}, so the {same[0].launch.max_nodes} nodes never are complete"
        left = [a for a in same if a.ppid == 1]
        if left:
            check = f"whether {_who(left)} is left from an earlier start"
            causes.append(likely("settings-differ", subject, said, decides=(check,)))
        else:
            causes.append(_differ(subject, said, told))
    return causes


def _min_above(run: str, agents: list[Agent], evidence: Evidence) -> list[Cause]:
    """More nodes demanded than the rendezvous has."""
    need, nodes = max(a.launch.min_nodes for a in agents), evidence.room or len(evidence.nodes)
    if need <= max(nodes, len(agents)) or any(a.workers for a in agents):
        return []
    words = f"--nnodes asks for at least {need}, the fleet file names {nodes} nodes for this rendezvous"
    return [likely("min-above-existing", f"run {run}", words, decides=("whether a node runs several agents",))]


def _loopback(agents: list[Agent], evidence: Evidence) -> list[Cause]:
    """A loopback address for agents that sit on several nodes."""
    causes = []
    for agent in agents:
        unsaid = agent.launch.backend == "c10d" and not agent.launch.endpoint
        given = NO_ENDPOINT if unsaid else agent.launch.endpoint or agent.launch.master_addr
        host = given.rsplit("://", 1)[-1].rsplit(":", 1)[0]
        many = agent.launch.max_nodes > 1 and len(evidence.nodes) > 1
        if many and host and is_loopback(host):
            said = f"no --rdzv-endpoint, so {host} (a master address is for the static backend only)" if unsaid else host
            words = f"pid {agent.pid} on {agent.node} was given {said} with --nnodes={agent.launch.max_nodes}"
            causes.append(confirmed("master-loopback", f"pid {agent.pid} on {agent.node}", words))
    return causes


def _workers(evidence: Evidence) -> list[Cause]:
    workers = live_workers(evidence)
    causes = bare_causes([w for w in workers if w.run_id is None and not w.by_env], evidence)
    mine = [w for w in workers if w.run_id is not None]
    for run, group in groupby(sorted(mine, key=lambda w: w.run_id or ""), key=lambda w: w.run_id or ""):
        causes += _counts(run, list(group))
    return causes + _addresses(mine, evidence)


def _counts(run: str, workers: list[Worker]) -> list[Cause]:
    counts = {(w.node, w.env.get("TORCHELASTIC_RESTART_COUNT", "")) for w in workers}
    if len({c for _, c in counts if c}) < 2:
        return []
    words = "; ".join(f"{node}: {count}" for node, count in sorted(counts))
    return [
        likely(
            "restart-counts-differ",
            f"run {run}",
            f"TORCHELASTIC_RESTART_COUNT {words}",
            decides=("agent logs",),
        )
    ]


def _addresses(workers: list[Worker], evidence: Evidence) -> list[Cause]:
    """MASTER_ADDR as each worker has it, and whether its node reaches it."""
    causes = []
    for node in known_nodes(evidence):
        for worker in [w for w in workers if w.node == node.node]:
            addr = worker.env.get("MASTER_ADDR", "")
            spread = {w.node for w in workers if w.run_id == worker.run_id}
            whole = _is_whole([w for w in workers if (w.run_id, w.node) == (worker.run_id, worker.node)])  # others under the default id
            who = f"pid {worker.pid} on {worker.node}"
            if addr and is_loopback(addr) and len(spread) > 1 and not whole:
                words = f"{who} has MASTER_ADDR={addr}, and the run has workers on {', '.join(sorted(spread))}"
                causes.append(confirmed("master-loopback", who, words))
                continue
            if any(w.orphan for w in workers if w.run_id == worker.run_id):
                continue  # the store ended with its agent: that comes first
            full = host_port(addr, worker.env.get("MASTER_PORT", ""))
            mates = [w for w in workers if w.run_id == worker.run_id]
            causes += [unreached(worker, reach, mates, evidence) for reach in node.reach if reach.address == full and reach.error]
    return causes


def _is_whole(here: list[Worker]) -> bool:
    """Whether all ranks that they count are these, on one node."""
    return {w.env.get("WORLD_SIZE", "") for w in here} == {str(len(here))}
