"""What is being changed right now: steps that began and were not seen to end, on whatever machine and in whatever state."""

from datetime import datetime, timedelta

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.engine.state_table import OPEN
from flows.engine.steps import SETTLED, read_steps
from runbooks.core.base import Frozen
from runbooks.core.times import utc

LOOK_BACK = timedelta(days=7)  # longer than any step's time


class AtWork(Frozen):
    """One step that is at work, or may be."""

    act_run: str
    owner: str
    step: int
    kind: str
    since: datetime
    until: datetime | None  # where its process is gone: nothing of it runs after this

    def __str__(self) -> str:
        end = f", ends by {utc(self.until)}" if self.until else ""
        return f"step {self.step} ({self.kind}) on {self.owner} since {utc(self.since)}{end} ({self.act_run})"


def in_progress(now: datetime) -> tuple[AtWork, ...]:
    """Every step that may still change something. One that begins after a freeze was set withdraws by itself."""
    begun = [run for run in unsettled(now) if run.start_time and SETTLED not in run.labels]
    return tuple(step for run in begun for step in _at_work(run, now))


def unsettled(now: datetime) -> list[FlowRun]:
    """Action runs that have not ended, and those that have but of which a step may still be at work."""
    runs = store.find_runs([store.ACT_TAG], OPEN) + store.find_runs([store.ACT_TAG], since=now - LOOK_BACK)
    each = {run.id: run for run in runs}
    return [r for r in each.values() if r.state_type in OPEN or (r.start_time and SETTLED not in r.labels)]


def _at_work(run: FlowRun, now: datetime) -> list[AtWork]:
    ended = run.state is not None and run.state.is_final()
    return [
        AtWork(
            act_run=run.name,
            owner=str(run.parameters.get("owner", "?")),
            step=s.i + 1,
            kind=s.kind,
            since=s.begun_at,
            until=s.until if ended else None,
        )
        for s in read_steps(run.id)
        if s.open_at(now) or (s.begun and not s.ended and not ended)
    ]
