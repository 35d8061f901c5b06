"""Judges names that cannot be looked up: those that a program said it cannot, and those that a node was seen not to find.

A name counts where the job itself was given it, as its master or its endpoint. Other names in the same text are none of its own.
"""

from collections.abc import Iterator

from runbooks.core.distinct import names_of
from runbooks.core.verdict import Cause
from runbooks.parsers.address import address_of, host_in, is_address, is_loopback
from runbooks.rendezvous.causes import likely
from runbooks.rendezvous.evidence import Agent, Evidence
from runbooks.rendezvous.launches import live_agents, meets_at
from runbooks.rendezvous.life import known_nodes
from runbooks.rendezvous.parsers.job_words import not_found
from runbooks.rendezvous.workers import live_workers

NAMED = 4  # processes in a sentence


def unresolved_causes(evidence: Evidence) -> list[Cause]:
    """One for each such name that was said, and one for each agent whose node does not find its master."""
    said = [c for (name, slug), who in _given(evidence).items() for c in _said(name, slug, who, evidence)]
    return said or list(_seen(evidence))


def _given(evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """(name, cause) -> the processes that were given it."""
    found: dict[tuple[str, str], list[str]] = {}
    for w in live_workers(evidence):
        found.setdefault((w.env.get("MASTER_ADDR", ""), "master-unresolvable"), []).append(f"pid {w.pid} on {w.node}")
    for a in live_agents(evidence):
        slug = "master-unresolvable" if a.launch.backend == "static" else "endpoint-unresolvable"
        found.setdefault((_host(a), slug), []).append(f"pid {a.pid} on {a.node}")
    return {key: who for key, who in found.items() if key[0] and not is_loopback(key[0]) and not is_address(key[0])}


def _host(agent: Agent) -> str:
    return host_in(address_of(meets_at(agent), 0)) if meets_at(agent) else ""


def _said(name: str, slug: str, who: list[str], evidence: Evidence) -> Iterator[Cause]:
    line = not_found(name, evidence.symptom)
    if not line or _found_now(name, who, evidence):
        return
    own = [n.node for n in known_nodes(evidence) if n.host_name == name and not n.own_addresses]
    nothing = [f"it is the host name of {node}, and resolves to nothing on {node} itself" for node in own]
    given = f"{names_of(who, NAMED)} have to find it"
    yield likely(slug, name, line.strip()[:300], given, *nothing, decides=(f"`getent hosts {name}` on the node that said so",))


def _found_now(name: str, who: list[str], evidence: Evidence) -> bool:
    """Whether each node of these processes finds that name: it was said while the others came up."""
    finds = {n.node for n in known_nodes(evidence) for r in n.reach if r.resolves and host_in(r.address) == name}
    return {w.rpartition(" on ")[2] for w in who} <= finds


def _seen(evidence: Evidence) -> Iterator[Cause]:
    """The node of an agent that was told its master does not find that name. Without a store of its own it waits for it."""
    nodes = {n.node: n for n in known_nodes(evidence)}
    for a in live_agents(evidence):
        if a.launch.backend != "static" or not a.launch.master_addr:
            continue
        mine = nodes[a.node].reach if a.node in nodes else ()
        for reach in (r for r in mine if r.address == meets_at(a) and r.error and not r.resolves):
            who = f"pid {a.pid} on {a.node}"
            yield likely("master-unresolvable", who, f"--master-addr {reach.address}: {reach.error}", decides=("whether rank 0 is up",))
