"""`doctor --fleet`: can each node be entered and read, and does each system answer? The looks that a nightly begins with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from deployments.doctor.check import Check
from runbooks.core.fleet import Fleet
from runbooks.core.nightly import SystemCheck
from runbooks.core.node_look import NodeLook, remarks, version
from tasks.systems.answers import begin_here
from tasks.systems.from_node import first_look
from tasks.transport.open import HostPool

AT_ONCE = 16


def check_fleet(fleet: Fleet) -> Iterator[Check]:
    """One check per node, in the order of the file, then one or more per system. All of them are tried side by side."""
    with HostPool() as hosts, ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        here = begin_here(fleet)
        seen = list(pool.map(lambda node: first_look(fleet, node.name, hosts(node)), fleet.nodes))
        yield from (judged(look) for look, _ in seen)
        yield from map(_system, (*here(), *(check for _, later in seen for check in later())))


def judged(look: NodeLook) -> Check:
    """What a node lacks, worst first."""
    found, name = remarks(look), f"node {look.node}"
    worst = next((r for r in found if r.fault), None)
    if worst:
        return Check(name, "FAULT", worst.says if look.blind else f"entered; {worst.says}", worst.fix)
    says = f"entered; Python {version(look)}{'' if look.uid else '; root'}"
    return Check(name, "note" if found else "ok", "; ".join((says, *(r.says for r in found))), found[-1].fix if found else "")


def _system(check: SystemCheck) -> Check:
    return Check(check.name, str(check.state), check.detail, check.fix)
