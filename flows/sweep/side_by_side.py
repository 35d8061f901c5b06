"""Reads the nodes of a sweep side by side, each as a task run, and shows how far it is."""

import logging
import time
from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

from flows import store
from flows.engine.progress import Timeline
from flows.engine.run import current_run_id
from flows.engine.stopping import why_stop
from flows.specs import load_spec
from flows.sweep.sweeping import NIGHTLY, NodeAnswer, Sweep, check_node, check_target
from runbooks.core.fleet import Node
from runbooks.core.show import markdown

log = logging.getLogger("flows.side_by_side")
MOST_AT_ONCE = 64
EVERY_S = 2.0


class NodesDone:
    """How many nodes were looked at, as a progress artifact of the run in which this is made.

    It is written at most every EVERY_S, so its cost does not grow with the fleet. What goes wrong with it is logged, and changes
    nothing.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes, self.done = nodes, 0
        self._next = 0.0
        self._artifact: UUID | None = None

    def one_more(self) -> None:
        """One node was looked at."""
        self.done += 1
        if time.monotonic() < self._next and self.done < self.nodes:
            return
        try:
            self._write()
        except Exception as e:
            log.warning("the progress is not shown: %s", type(e).__name__)
        self._next = time.monotonic() + EVERY_S

    def _write(self) -> None:
        says: dict[str, Any] = {
            "data": round(100 * self.done / self.nodes, 1),
            "description": markdown("{} of {} nodes looked at", self.done, self.nodes),
        }
        if self._artifact is None:
            made = ArtifactCreate(type="progress", flow_run_id=UUID(current_run_id()), **says)
            self._artifact = store.ask(partial(SyncPrefectClient.create_artifact, artifact=made), patience_s=0.0).id
        else:
            wanted = ArtifactUpdate(**says)
            store.ask(partial(SyncPrefectClient.update_artifact, artifact_id=self._artifact, artifact=wanted), patience_s=0.0)


def check_nodes(sweep: Sweep, nodes: Iterable[Node], at_once: int, timeline: Timeline) -> list[NodeAnswer]:
    """Every one of `nodes`, at most `at_once` at a time, as tasks named after them. Answers in the order of `nodes`.

    Once the sweep is cancelled no further node is begun; the report names those that were not looked at.
    """
    chosen = list(nodes)
    futures: list[Any] = []
    limit = max(1, min(at_once, MOST_AT_ONCE))
    running: list[Any] = []
    progress = NodesDone(len(chosen)) if sweep.trigger == NIGHTLY else None  # the others come every few minutes
    stop = ""

    def wait(future: Any) -> None:
        future.wait()
        if progress:
            progress.one_more()

    for node in chosen:
        if len(running) >= limit:
            wait(running.pop(0))
            stop = stop or why_stop(sweep.run_id)
        if stop:
            futures.append(None)
            continue
        future = check_node.with_options(task_run_name=f"check {node.name}").submit(sweep, node)
        futures.append(future)
        running.append(future)
    for future in running:
        wait(future)
    answers = []
    for node, future in zip(chosen, futures, strict=True):
        answer = future.result() if future else NodeAnswer([], [f"{node.name}: not looked at: {stop}"])
        worst = "; ".join(f"{r.runbook}: {r.headline}" for r in answer.results) or "no runbook applies"
        timeline.reached("gathered", f"{node.name}: {worst}")
        answers.append(answer)
    return answers


def check_targets(sweep: Sweep, timeline: Timeline) -> list[NodeAnswer]:
    """What a sweep looks at besides nodes, one task each; runbooks name them (RunbookSpec.nightly_targets)."""
    chosen = [(t, name) for name in sweep.slugs for t in load_spec(name).nightly_targets(sweep.fleet)]
    futures = [check_target.with_options(task_run_name=f"check {t}").submit(sweep, t, name) for t, name in chosen]
    answers = []
    for (target, _), future in zip(chosen, futures, strict=True):
        answer = future.result()
        timeline.reached("gathered", f"{target}: {'; '.join(f'{r.runbook}: {r.headline}' for r in answer.results)}")
        answers.append(answer)
    return answers
