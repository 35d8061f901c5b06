"""Judges how many workers came to the barrier at which torch forms a process group, by the line with which each of them waits there.

Torch, distributed/distributed_c10d.py, _store_based_barrier: a counter in the store must become the world size, exactly.
"""

from runbooks.core.verdict import Cause
from runbooks.rendezvous.causes import possible
from runbooks.rendezvous.parsers.job_words import barrier_counts

SUBJECT = "what was pasted"


def barrier_causes(text: str) -> list[Cause]:
    """By the last such line of each barrier: too few came, or more than it counts."""
    return [found for key, (came, world) in barrier_counts(text).items() if (found := _judged(key, came, world))]


def _judged(key: str, came: int, world: int) -> Cause | None:
    words = f"{came} workers were counted at the barrier {key}, and it waits for {world}"
    if came < world:
        decides = ("the first error of the workers that did not come, and which ranks those are",)
        return possible("waiting-for-nodes", SUBJECT, words, decides=decides)
    if came > world:
        why = "a second start counts on in the store of the first: the barrier is never met"
        decides = ("whether the job was started twice at one address, or a restart uses the store of the start before",)
        return possible("store-shared", SUBJECT, words, why, decides=decides)
    return None
