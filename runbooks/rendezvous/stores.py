"""Judges C10d stores: gone, never opened, out of one node's reach, closed by something between, shared. Each node's own way counts."""

from runbooks.core.verdict import Cause
from runbooks.parsers.address import address_of, host_in, is_loopback
from runbooks.rendezvous.by_env import EnvJob
from runbooks.rendezvous.causes import benign, confirmed, likely, possible
from runbooks.rendezvous.evidence import Agent, Evidence, NodeFacts, Reachability, StoreView
from runbooks.rendezvous.launches import live_agents, meets_at
from runbooks.rendezvous.life import known_nodes, owners_of, place_of
from runbooks.rendezvous.workers import live_workers

_BY_ADDRESS = "whether the job's torch compares addresses: `grep host_ip_list` in its torch/distributed/elastic/rendezvous/utils.py"


def store_causes(evidence: Evidence, jobs: tuple[EnvJob, ...], import_s: float) -> list[Cause]:
    """Every cause of every C10d endpoint. `jobs`: those without torchrun. `import_s`: what an agent takes before it opens its store."""
    causes = []
    for store in evidence.stores:
        here = place_of(store.endpoint, evidence)
        users = [a for a in live_agents(evidence) if _uses(a) and place_of(meets_at(a), evidence) == here]
        asks = [a for a in users if a.launch.backend == "c10d"]  # rank 0 opens a static one, whenever it comes
        shut = _shut(store, users, evidence)
        causes += shut
        if asks and not store.answers and not shut:
            causes += _nobody(store, asks, evidence, import_s)
        if store.answers and users:
            causes += _cut_off(store, users, evidence)
        if store.answers and not users and not any(job.place == here for job in jobs):
            causes.append(_alone(store))
        apart = {(a.launch.run_id, a.launch.script, a.launch.script_digest * (a in asks)) for a in users}
        if store.answers and len(apart) > 1:
            words = [f"{_who(users)} are {len(apart)} jobs in one store; when its host ends, all lose it"]
            causes.append(likely("store-shared", store.endpoint, *words, decides=("whether they are one job",)))
    return causes


def _uses(agent: Agent) -> bool:
    return agent.launch.backend in ("c10d", "static") and bool(meets_at(agent))


def _who(agents: list[Agent]) -> str:
    return ", ".join(f"pid {a.pid} on {a.node}" for a in agents)


def _views(store: StoreView, evidence: Evidence) -> list[tuple[NodeFacts, Reachability]]:
    at = address_of(store.endpoint, 29400)
    return [(n, r) for n in known_nodes(evidence) for r in n.reach if r.address in (store.endpoint, at)]


def _shut(store: StoreView, users: list[Agent], evidence: Evidence) -> list[Cause]:
    """A connection that something takes and closes is no way to the store."""
    views = [(n, r) for n, r in _views(store, evidence) if r.error.startswith("closed:")]
    if not views:
        return []
    words = [f"{n.node} -> {store.endpoint}: {r.error.removeprefix('closed: ')}" for n, r in views]
    words += [f"{_who(users)} need it"] if users else []
    seen = [f"on {n.node} a proxy of {n.proxy} takes its connections" for n in known_nodes(evidence) if n.proxy]
    if seen:
        return [confirmed("proxy-closes", store.endpoint, *words, *seen)]
    check = ("the pod's other containers (kubectl get pod)", "who listens there: ss -ltnp on its node")
    return [likely("proxy-closes", store.endpoint, *words, decides=check)]


def _nobody(store: StoreView, users: list[Agent], evidence: Evidence, import_s: float) -> list[Cause]:
    """Nobody reaches it: its host is gone, or lives and never opened it, or the way is closed for all."""
    owners = owners_of(_host(store), evidence)
    words = [f"{store.endpoint} answers nobody, and {_who(users)} need it"]
    for node in owners:
        there = [a for a in users if a.node == node.node]
        if there:
            return _lives(store, there, node, words, evidence, import_s)
    words += [f"{n.node} owns that address and runs no agent of it" for n in owners]
    if held := [n.node for n in owners if _open(store, n)]:
        seen = f"yet its port is open on {', '.join(held)}: something else listens there"
        return [likely("port-other-job", store.endpoint, *words, seen, decides=("who listens there: ss -ltnp on that node",))]
    return [(confirmed if owners else possible)("store-host-died", store.endpoint, *words)]


def _lives(
    store: StoreView, agents: list[Agent], node: NodeFacts, words: list[str], evidence: Evidence, import_s: float
) -> list[Cause]:
    """An agent lives on the store's machine."""
    port, host = _port(store), _host(store)
    words = [*words, f"{_who(agents)} lives on the machine of that address"]
    if _open(store, node):
        return [likely("store-unreachable-from-node", store.endpoint, *words, f"port {port} is open on {node.node} itself",
                       decides=("firewall and address on which it listens",))]  # fmt: skip
    ids = {a.launch.run_id for a in agents}
    formed = [w for w in live_workers(evidence) if w.run_id in ids]
    if formed:
        seen = f"workers of {', '.join(sorted(ids))} run, so the store was there once: pid {formed[0].pid} on {formed[0].node}"
        return [likely("store-host-died", store.endpoint, *words, seen, decides=("which agent was the store's host, and its end",))]
    knows = [_takes_itself_for(a, node, host) for a in agents]
    names = f"{node.host_name} resolves to {', '.join(node.own_addresses) or 'nothing'} on {node.node} itself"
    if node.host_name and not any(knows):
        told = [f"{k} is given" for a in agents for k in [f"is_host={a.launch.conf.get('is_host')}"] if "is_host" in a.launch.conf]
        return [confirmed("store-never-hosted", store.endpoint, *words, f"nothing listens on port {port} there", names, *told)]
    age = min(node.clock_s - a.started_s for a in agents)
    check = ("its log: does it still start, or did its store end?", *((f"it is {age:.0f} s old",) if age < import_s else ()))
    found = [possible("store-host-died", store.endpoint, *words, f"nothing listens on port {port} there", decides=check)]
    if node.host_name and not any("is_host" in a.launch.conf for a in agents) and not _goes_by(host, node):
        other = f"{host} is no name that {node.node} has for itself, only its address: older versions of torch compare the names alone"
        found.append(possible("store-never-hosted", store.endpoint, *words, names, other, decides=(_BY_ADDRESS,)))
    return found


def _host(store: StoreView) -> str:
    return host_in(address_of(store.endpoint, 29400))


def _port(store: StoreView) -> int:
    return int(address_of(store.endpoint, 29400).rpartition(":")[2])


def _open(store: StoreView, node: NodeFacts) -> bool:
    """Whether something listens on the store's port on that machine."""
    return any(p.port == _port(store) and p.open for p in node.ports)


def _takes_itself_for(agent: Agent, node: NodeFacts, host: str) -> bool:
    """Whether that agent opens the store, as torch decides it: is_host, loopback, its own name, what that name resolves to."""
    given = host_in(agent.launch.endpoint) or host
    said = agent.launch.conf.get("is_host", "").lower()
    if said:
        return said in ("1", "true", "t", "yes", "y")
    there = {ip for r in node.reach if host_in(r.address) == given for ip in r.resolves}
    mine = {*node.own_addresses, *node.canonical, node.host_name}
    return is_loopback(given) or given in mine or bool(there & set(node.own_addresses))


def _goes_by(host: str, node: NodeFacts) -> bool:
    """Whether that is a name, or an address, by which every version of torch knows its own machine."""
    return is_loopback(host) or host in {node.host_name, *node.own_addresses, *node.canonical}


def _cut_off(store: StoreView, users: list[Agent], evidence: Evidence) -> list[Cause]:
    """Nodes with an agent of it that do not reach what others reach."""
    needs = {a.node for a in users}
    short = len(users) < max(a.launch.min_nodes for a in users)
    causes = []
    for node, reach in _views(store, evidence):
        if not reach.error or reach.error.startswith("closed:"):
            continue
        slug = "store-unreachable-from-node" if reach.resolves else "endpoint-unresolvable"
        where, words = f"{store.endpoint} from {node.node}", (f"{node.node}: {reach.error}", "other nodes reach it")
        if node.node in needs:
            causes.append(confirmed(slug, where, *words))
        elif short:
            lacks = f"{len(users)} agents wait for more, and none runs on {node.node}: one that cannot find the store ends"
            causes.append(likely(slug, where, *words, lacks, decides=(f"the last words of the job on {node.node}",)))
    return causes


def _alone(store: StoreView) -> Cause:
    """A store that answers and that no agent of these nodes uses."""
    who = store.listener or "a process that was not seen"
    words = [f"{who} listens at {store.endpoint}, and no agent of these nodes names that endpoint"]
    words.append("what a C10d store holds cannot be read without joining it: processes alone were judged")
    return benign("store-answers", store.endpoint, *words)
