"""Judges a master address that a worker's node does not reach: no such name, served and out of that node's reach, or wrong."""

from collections.abc import Iterable

from runbooks.core.verdict import Cause
from runbooks.parsers.address import is_loopback
from runbooks.rendezvous.causes import likely
from runbooks.rendezvous.evidence import Evidence, NodeFacts, Reachability, Worker
from runbooks.rendezvous.life import known_nodes


def unreached(w: Worker, reach: Reachability, mates: Iterable[Worker], evidence: Evidence) -> Cause:
    """The cause, where that attempt of the worker's node failed. `mates`: all workers of its job, itself too."""
    who, words, check = f"pid {w.pid} on {w.node}", f"MASTER_ADDR {reach.address}: {reach.error}", ("whether rank 0 is up",)
    if not reach.resolves:
        return likely("master-unresolvable", who, words, decides=check)
    port = reach.address.rpartition(":")[2]
    zeros = {z.node for z in mates if z.env.get("RANK") == "0"}
    served = [n for n in _owners(w, reach, evidence) if any(str(p.port) == port and p.open for p in n.ports)]
    owner = next((n for n in served if not zeros or n.node in zeros), None)
    if owner is None or reach.error.startswith("closed:"):
        return likely("master-wrong", who, words, decides=check)
    seen = f"{owner.node} has the address {', '.join(reach.resolves)}, and port {port} is open there"
    way = ("what shuts the way between the two nodes: route, firewall, network policy, and the address on which it listens",)
    return likely("store-unreachable-from-node", f"{reach.address} from {w.node}", f"{w.node}: {reach.error}", seen, decides=way)


def _owners(w: Worker, reach: Reachability, evidence: Evidence) -> list[NodeFacts]:
    """Other machines with an address to which it was resolved. One that fails to reach it itself does not prove that it is its own."""
    nodes = known_nodes(evidence)
    here = {n.boot_id for n in nodes if n.node == w.node}
    there = {ip for ip in reach.resolves if not is_loopback(ip)}
    others = (n for n in nodes if n.boot_id not in here and there & {*n.names, *n.own_addresses})
    return [n for n in others if not any(r.address == reach.address and r.error for r in n.reach)]
