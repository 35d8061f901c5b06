"""`doctor --fleet`: can each node of the fleet be entered and read, and is it quarantined? The look that sweeps begin with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from deployments.doctor.check import Check
from runbooks.core.fleet import Fleet
from runbooks.core.node_look import NodeLook, remarks, version
from tasks.remote.node_look import look_at_node
from tasks.transport.open import HostPool

AT_ONCE = 16


def check_nodes(fleet: Fleet) -> Iterator[Check]:
    """One check per node, in the order of the file: entered or not, rights, Python, clock."""
    with HostPool() as hosts, ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        yield from map(judged, pool.map(lambda node: look_at_node(hosts(node)), fleet.nodes))


def judged(look: NodeLook) -> Check:
    """What a node lacks, worst first."""
    found, name = remarks(look), f"node {look.node}"
    worst = next((r for r in found if r.fault), None)
    if worst:
        return Check(name, "FAULT", worst.says if look.blind else f"entered; {worst.says}", worst.fix)
    says = f"entered; Python {version(look)}{'' if look.uid else '; root'}"
    return Check(name, "note" if found else "ok", "; ".join((says, *(r.says for r in found))), found[-1].fix if found else "")
