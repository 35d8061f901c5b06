"""`doctor --fleet`: can each node be entered and read, and does each system answer? The looks that a nightly begins with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from deployments.doctor.check import Check
from flows.node_tools import tools_on
from runbooks.core.fleet import Fleet
from runbooks.core.nightly import SystemCheck
from runbooks.core.node_basics import NodeBasics, remarks, version
from tasks.systems.answers import begin_here
from tasks.systems.from_node import begin_node
from tasks.transport.open import HostPool

AT_ONCE = 16


def check_fleet(fleet: Fleet) -> Iterator[Check]:
    """One check per node, in the order of the file, then one or more per system. All of them are tried side by side."""
    with HostPool() as hosts, ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        here = begin_here(fleet)
        seen = list(pool.map(lambda node: begin_node(fleet, node.name, hosts(node), tools_on(fleet, node)), fleet.nodes))
        yield from (judged(look) for look, _ in seen)
        yield from map(_system, (*here(), *(check for _, later in seen for check in later())))


def judged(look: NodeBasics) -> Check:
    """What a node lacks, worst first, with each fix."""
    found, name = remarks(look), f"node {look.node}"
    said, fix = [r.says for r in found], "; ".join(dict.fromkeys(r.fix for r in found if r.fix))
    if look.blind:
        return Check(name, "FAULT", said[0], fix)
    entered = "; ".join(("entered", *([f"Python {version(look)}"] if look.python else ()), *(() if look.uid else ["root"]), *said))
    return Check(name, "FAULT" if any(r.fault for r in found) else "note" if found else "ok", entered, fix)


def _system(check: SystemCheck) -> Check:
    return Check(check.name, str(check.state), check.detail, check.fix)
