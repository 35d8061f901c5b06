"""Which programs are wanted on a node: those that the readings of the runbooks call which the fleet file makes applicable there."""

from flows.specs import SLUGS, reads_on
from runbooks.core.containers_config import engine_of
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import folder_of
from runbooks.core.node_tools import NodePart, Wanted, engine, wanted
from tasks.remote.tools import tools_of

SMI = "nvidia-smi"  # of which a node's label of that name gives the path


def tools_on(fleet: Fleet, node: Node) -> tuple[Wanted, ...]:
    """Each program once, with the runbooks that call it there."""
    by: dict[str, tuple[str, ...]] = {}
    for slug in SLUGS:
        for tool in tools_of(folder_of(slug)) if reads_on(slug, fleet, node) else ():
            by[tool] = (*by.get(tool, ()), slug)
    found = [wanted(tool, slugs, node.labels.get(SMI, "") if tool == SMI else "") for tool, slugs in by.items()]
    kept = [w for w in found if _is_of_use(w, fleet, node)]
    containers = fleet.containers_on(node.name)
    return (*kept, engine(engine_of(containers)[0])) if containers else tuple(kept)


def _is_of_use(tool: Wanted, fleet: Fleet, node: Node) -> bool:
    """As far as the fleet file tells; the look at the node tells the rest."""
    if tool.of is NodePart.RAY_HEAD:
        return fleet.ray is not None and fleet.ray.head == node.name
    return tool.of is not NodePart.NVIDIA or node.gpus != 0
