"""A job's processes that live, and the ports on which they listen. Pure."""

from runbooks.rendezvous.evidence import Evidence, NodeFacts, Port, Worker
from runbooks.rendezvous.life import known_nodes


def live_workers(evidence: Evidence) -> list[Worker]:
    """Workers on all nodes that could be read, without their children."""
    return [w for n in known_nodes(evidence) for w in n.workers if w.state not in "ZX" and not w.loader]


def holds(w: Worker, port: Port, node: NodeFacts) -> bool:
    """Whether the process, or one that it started, listens there."""
    below = {x.pid for x in node.workers if x.ppid == w.pid}
    return bool({w.pid, *below} & set(port.listeners))
