"""Judges a job's processes that have no rank in their environment. What a program sets for itself does not stand there.

The kernel shows the environment that a process was started with. A program may set RANK itself, or be told it by its options.
"""

from collections.abc import Iterator
from itertools import groupby

from runbooks.core.distinct import names_of
from runbooks.core.verdict import Cause
from runbooks.rendezvous.causes import likely, possible
from runbooks.rendezvous.evidence import Evidence, NodeFacts, Port, Worker
from runbooks.rendezvous.life import known_nodes
from runbooks.rendezvous.workers import holds
from runbooks.triage.text import says

NAMED = 4  # processes in a sentence
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


def bare_causes(workers: list[Worker], evidence: Evidence) -> list[Cause]:
    """For each job. `workers`: its processes without torchrun that were not given all of RANK, WORLD_SIZE and MASTER_ADDR."""
    causes: list[Cause] = []
    for job, group in groupby(sorted(workers, key=lambda w: w.job), key=lambda w: w.job):
        mine = list(group)
        stores = list(_stores(mine, evidence))
        causes += [_own_ranks(job, mine, stores, evidence)] if stores else [_plain(w, evidence) for w in mine]
    return causes


def _stores(workers: list[Worker], evidence: Evidence) -> Iterator[tuple[Worker, NodeFacts, Port]]:
    """Those of them that listen on a port of this rendezvous: only rank 0 opens the store."""
    for node in known_nodes(evidence):
        for port in node.ports:
            yield from ((w, node, port) for w in workers if w.node == node.node and holds(w, port, node))


def _own_ranks(job: str, workers: list[Worker], stores: list[tuple[Worker, NodeFacts, Port]], evidence: Evidence) -> Cause:
    """Rank 0 has opened its store, so it has a rank; how many it waits for stands in the program alone."""
    zero, node, port = stores[0]
    words = f"pid {zero.pid} on {node.node} listens on port {port.port}: its program knows its rank, and how many it waits for is not read"
    without = [n.node for n in known_nodes(evidence) if n.node not in {w.node for w in workers}]
    seen = [f"no process of it was seen on {', '.join(without)}"] if without else []
    seen += [f"node {v.node} could not be read" for v in evidence.nodes if v.facts.kind != "known"]
    others = f"{port.established or 'no'} connections of others to its store exist"
    decides = ("how many ranks its options or its program count, and whether each of them was started",)
    return possible("waiting-for-nodes", f"job {job}", words, f"seen: {_who(workers)}", *seen, others, decides=decides)


def _who(workers: list[Worker]) -> str:
    return names_of([f"pid {w.pid} on {w.node}" for w in workers], NAMED)


def _plain(worker: Worker, evidence: Evidence) -> Cause:
    """No launcher gave it a rank. That it has none is likely only where its own words say so."""
    lacks = ", ".join(name for name in NEEDED if not worker.env.get(name))
    who = f"pid {worker.pid} on {worker.node}"
    words = f"{who} belongs to job {worker.job} and was started without {lacks}"
    if says(evidence.symptom, "stale-rendezvous/plain-python"):
        said = "what was pasted says that they are missing"
        return likely("plain-python", who, words, said, decides=("whether what was pasted is this job's",))
    decides = ("whether its options or its program set them: what a program sets for itself is not in what was read",)
    return possible("plain-python", who, words, decides=decides)
