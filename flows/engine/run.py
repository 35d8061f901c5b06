"""One run of a runbook on its way through the engine: what it is about, and how it observes its target."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.clock import server_now
from flows.current_run import current_run
from flows.engine.ends import clean_end
from flows.engine.observe import UnreadTarget, judge, read
from flows.engine.progress import Point
from flows.engine.run_record import RunRecord
from flows.engine.stopping import go_on
from flows.spec import RunbookSpec
from runbooks.core.fleet import Fleet
from runbooks.core.outcome import Outcome, outcome_of
from runbooks.core.policy import Mode, Policy
from runbooks.core.verdict import Diagnosis
from tasks.context import Context
from tasks.diagnostic import looking


@dataclass
class Run:
    """One run of one runbook on one target, on its way through the engine."""

    spec: RunbookSpec
    fleet: Fleet
    policy: Policy
    context: Context
    mode: Mode
    choice: str
    run_id: str
    record: RunRecord
    reread: Callable[[], tuple[Fleet, Policy, dict[str, Any]]] | None = None  # fleet, policy and limits as they are now
    execution: int = 0  # which execution of the run this process is
    observations: int = 0
    read_at: datetime | None = None  # when the last observation began
    evidence: Any = None
    diagnosis: Diagnosis | None = None
    notes: list[str] = field(default_factory=list)

    def observe(self, point: Point = "gathered", look: str = "first look") -> Diagnosis:
        """Reads the target, each reading as a task, and judges it as one more. `look`: which one it is, a tag of its tasks."""
        go_on(self.run_id)
        self.observations += 1
        self.read_at = server_now()
        name = f"{self.context.target}" + (f" (look {self.observations})" if self.observations > 1 else "")
        with looking(look):
            found = read_target(self.spec, self.context)
        self.evidence = None if isinstance(found, UnreadTarget) else found
        self.record.timeline.reached(point, f"read {self.context.target}")
        judged = judge_target.with_options(task_run_name=f"judge {name}")
        self.diagnosis = judged(Sealed(self.spec, self.context, found))
        self.record.timeline.reached("judged", self.diagnosis.headline, logged=_judged(self.diagnosis))
        return self.diagnosis


class Sealed:
    """What a task is given, unopened: Prefect walks through every model that it is handed, and takes one with a field
    `keys` for a mapping (TypeError: 'tuple' object is not callable)."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


@clean_end
def read_target(spec: RunbookSpec, context: Context) -> Any:
    """Reads everything the runbook needs. Changes nothing. A target that gives no answer is UnreadTarget."""
    return read(spec, context)


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
@clean_end
def judge_target(given: Sealed) -> Diagnosis:
    """Judges the evidence. No input or output."""
    return judge(*given.parts)


def _judged(found: Diagnosis) -> str:
    """The headline stands in the run's last state, and so at the end of its log."""
    causes = [f"{c.slug} ({c.certainty.value})" for c in found.wrong]
    return f"judged: {', '.join([found.state.value, *causes])}"


def current_run_id() -> str:
    """Id of the flow run that this code runs in. Raises RuntimeError outside one."""
    run = current_run()
    if run is None:
        raise RuntimeError("not inside a flow run")
    return str(run.id)


def unchanged(run: Run, diagnosis: Diagnosis) -> Outcome:
    run.record.headline = diagnosis.headline
    return outcome_of(diagnosis.state)
