"""Which machines the places of a budget are about: one machine in two fleet files takes one place, and each file counts it.

A machine is known by its marks (lock_key.py). Whose machines another fleet's places are is told by the addresses in this fleet's
file and by what was read of this machine; another address of a machine that nobody has read from this fleet is not seen.
"""

from collections.abc import Iterable

from prefect.client.schemas.objects import FlowRun

from flows.engine.lock_key import address, own_lock_key
from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet
from tasks.remote.machine_identity import mark


class Changed(Frozen):
    """One machine that was changed, under whatever names."""

    name: str  # the newest of them
    names: frozenset[tuple[str, str]]  # the tag of a fleet, and what it calls the machine
    marks: frozenset[str]


def members(fleet: Fleet) -> frozenset[str]:
    """What a fleet's machines are known by, without a look at them."""
    return frozenset(own_lock_key() if n.local else mark("at", address(n)) for n in fleet.nodes)


def changed(places: Iterable[FlowRun], tag: str, known: frozenset[str]) -> list[Changed]:
    """The machines behind places of the budget, newest first: those of the fleet with that tag, and of other fleets those
    that have one of the marks `known`."""
    found: list[Changed] = []
    for place in places:
        target, marks = str(place.parameters["target"]), frozenset(place.parameters.get("machine", ()))
        own = tag in place.tags
        if not own and not marks & known:
            continue
        whose = tag if own else next((t for t in sorted(place.tags) if t.startswith("fleet:")), "")
        one = Changed(name=target, names=frozenset({(whose, target)}), marks=marks)
        for other in [c for c in found if c.names & one.names or c.marks & one.marks]:
            found.remove(other)
            one = Changed(name=other.name, names=one.names | other.names, marks=one.marks | other.marks)
        found.append(one)
    return found
