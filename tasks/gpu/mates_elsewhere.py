"""Reads the fleet's other nodes on which ranks of a run that is here may be: who waits here may wait for one there."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from runbooks.core.fleet import Job
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.elsewhere import places, spread
from runbooks.gpu.evidence import ALL_HERE, Elsewhere
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.gpu.observation import read_observation
from tasks.gpu.processes import ProcessReadings
from tasks.transport.base import TransportError


@diagnostic("the job's processes on other nodes · {context.target}")
def read_elsewhere(context: Context, look: ProcessReadings, jobs: tuple[Job, ...]) -> Known[tuple[Elsewhere, ...]] | Absent | Unknown:
    """A look at each of those nodes, all at once, each bounded by the time that its commands have. Which they are is known only
    from the processes here."""
    if not isinstance(look.processes, Known):
        return Unknown(reason=look.processes.reason, detail="which runs are here could not be read")
    found = spread(look.processes.value)
    if not found:
        return ALL_HERE
    names = places(context.node.name, found, jobs, [n.name for n in context.fleet.nodes])
    if not names:
        return Absent(proof="the fleet file has no other node for it")
    most = int(context.limit("mate_nodes", "zombie-gpu"))
    with ThreadPoolExecutor(max_workers=most) as pool:
        looks = tuple(pool.map(lambda name: _elsewhere(replace(context, target=name)), names[:most]))
    left = Unknown(reason=UnknownReason.NOT_ASKED, detail=f"more than {most} other nodes")
    return Known[tuple[Elsewhere, ...]](value=(*looks, *(Elsewhere(node=n, gpus=left, facts=left, processes=left) for n in names[most:])))


def _elsewhere(context: Context) -> Elsewhere:
    """One of them."""
    try:
        seen = read_observation(context, own=False).window
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail)
        return Elsewhere(node=context.target, gpus=no, facts=no, processes=no)
    return Elsewhere(
        node=context.target, window_s=seen.look.window_s, facts=seen.look.facts, gpus=seen.gpus, processes=seen.look.processes
    )
