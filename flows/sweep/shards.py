"""Shares a nightly's nodes between processes: runs of `nightly-shard` that any worker takes, gathered by the nightly.

The nightly reads the first part itself. A part that nobody has begun by then, or whose run ended without an answer, it
reads as well: reading twice harms nothing, and a missing worker only costs time.
"""

import json
import time
from typing import Any

from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.engine.progress import Timeline
from flows.engine.states import cancel
from flows.engine.stopping import why_stop
from flows.sweep.side_by_side import check_nodes
from flows.sweep.sweeping import NodeAnswer, Sweep
from runbooks.core.fleet import Node
from runbooks.core.nightly import Result, SystemCheck
from runbooks.core.node_basics import NodeBasics

SHARD, KIND = "nightly-shard", "table"
MOST = 64
LONGEST_S, EVERY_S = 3600.0, 0.5


def parts_of(nodes: tuple[Node, ...], shards: int) -> list[tuple[Node, ...]]:
    """At most `shards` parts of about one size, none empty."""
    n = max(1, min(shards, MOST, len(nodes)))
    return [nodes[k::n] for k in range(n)]


def check_fleet(sweep: Sweep, at_once: int, shards: int, files: dict[str, Any], timeline: Timeline) -> list[NodeAnswer]:
    """Every node of the fleet, in its order."""
    mine, *others = parts_of(sweep.fleet.nodes, shards)
    given = files | {"at_once": at_once} | ({"detail": True} if sweep.detail else {})  # a worker of the release before does not know it
    started = [(part, _start(sweep, k, part, given)) for k, part in enumerate(others, 1)]
    found = dict(zip((n.name for n in mine), check_nodes(sweep, mine, at_once, timeline), strict=True))
    for part, run in started:
        answers = _gathered(run, len(part))
        if answers is None:
            timeline.reached("problem", f"{run.name}: no answer from a worker; its {len(part)} node(s) are read here")
            answers = check_nodes(sweep, part, at_once, timeline)
        found |= dict(zip((n.name for n in part), answers, strict=True))
    return [found[n.name] for n in sweep.fleet.nodes]


def _start(sweep: Sweep, k: int, part: tuple[Node, ...], files: dict[str, Any]) -> FlowRun:
    return store.create_run(
        f"{SHARD}/{SHARD}",
        files | {"nodes": [n.name for n in part], "parent": sweep.run_id},
        state=None,
        key=f"{sweep.run_id}/shard/{k}",
        name=f"nightly shard {k + 1}",
        tags=[store.RUNBOOK_TAG, f"runbook:{SHARD}"],
        labels={"nightly": sweep.run_id},
    )


def _gathered(run: FlowRun, count: int) -> list[NodeAnswer] | None:
    """The part's answers once its run has ended; None if there are none, or if nobody had begun it (then it is ended)."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        state = store.read_run(run.id).state
        if state is not None and state.is_final():
            return _taken(run, count)
        if state is not None and state.is_scheduled():
            cancel(store.read_run(run.id), "the nightly reads these nodes itself")
        elif why := why_stop(str(run.labels["nightly"])):
            cancel(store.read_run(run.id), f"its nightly ends: {why}")
        time.sleep(EVERY_S)
    return None


def give_back(run_id: str, answers: list[NodeAnswer]) -> None:
    """Hands a part's answers to the nightly, as an artifact of the part's run."""
    data = json.dumps([_row(a) for a in answers])
    store.ask(lambda c: c.create_artifact(ArtifactCreate(type=KIND, data=data, flow_run_id=run_id)))


def _row(answer: NodeAnswer) -> dict[str, Any]:
    look = answer.look.model_dump(mode="json") if answer.look else None
    results, systems = ([x.model_dump(mode="json") for x in found] for found in (answer.results, answer.systems))
    return {"results": results, "unread": answer.unread, "look": look, "systems": systems}


def _heard(row: dict[str, Any]) -> NodeAnswer:
    """A worker of the release before does not tell of its look, nor of systems."""
    look = row.get("look")
    results = [Result.model_validate(r) for r in row["results"]]
    systems = tuple(SystemCheck.model_validate(s) for s in row.get("systems", ()))
    return NodeAnswer(results, list(row["unread"]), NodeBasics.model_validate(look) if look else None, systems)


def _taken(run: FlowRun, count: int) -> list[NodeAnswer] | None:
    """Reads the answers and deletes the artifact: the nightly's report holds them from now on."""
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]), type=ArtifactFilterType(any_=[KIND]))
    artifacts = store.ask(lambda c: c.read_artifacts(artifact_filter=wanted, limit=1))
    if not artifacts:
        return None
    data: Any = artifacts[0].data
    rows = json.loads(data) if isinstance(data, str) else data
    answers = [_heard(row) for row in rows]
    store.ask(lambda c: c.delete_artifact(artifacts[0].id))
    return answers if len(answers) == count else None
