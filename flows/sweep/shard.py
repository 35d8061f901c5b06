"""A part of a nightly as a flow of its own, for any worker."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.config import load_fleet
from flows.engine.ends import clean_end
from flows.engine.ownership import heartbeat, own_run
from flows.engine.progress import run_timeline
from flows.engine.run import current_run_id
from flows.engine.stopping import own_end
from flows.form import NOT_TYPED, without
from flows.specs import SLUGS
from flows.sweep.report_folder import report_folder_of
from flows.sweep.shards import give_back
from flows.sweep.side_by_side import check_nodes
from flows.sweep.sweeping import Sweep


@without(*NOT_TYPED)
@flow(name="nightly-shard", flow_run_name="nightly shard", persist_result=False, retries=0)
@clean_end
def nightly_shard(
    nodes: list[str], parent: str, fleet: str | None = None, out: str | None = None, at_once: int = 8, detail: bool = False
) -> State[Any]:
    """A part of a nightly: reads and judges its nodes and hands the answers to the nightly that started it.

    Args:
        nodes: names of nodes of the fleet file.
        parent: id of the nightly's run.
        fleet: path of the fleet file on the worker.
        out: folder for the reports. Empty: as the fleet file says.
        at_once: nodes that are read at the same time, 1 to 64.
        detail: each reading is a task run; else each node is one.
    """
    full, run_id = load_fleet(fleet), current_run_id()
    own_run(run_id, {"fleet": full.name, "runbook": "nightly-shard", "target": full.name})
    part = Sweep(fleet=full, slugs=SLUGS, folder=report_folder_of(full, out), run_id=parent, trigger="nightly", detail=detail)
    with heartbeat(run_id), part.shared.ended_with_us():
        timeline = run_timeline()
        give_back(run_id, check_nodes(part, [full.node(n) for n in nodes], at_once, timeline))
    return own_end(run_id, Completed(name="Part done", message=f"{len(nodes)} node(s) for nightly {parent}"))
