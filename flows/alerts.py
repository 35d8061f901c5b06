"""One run for one alert: starts it, joins it to the run in progress, or closes what it began. Prefect is the only record.

The runs of one runbook on one target form a chain: the idempotency key of each is "after" the newest one before it, so that
of any number of gateways asking at once the server lets one create the next run, and the others join that one. Which alerts a
run has taken up, and which are over, stands in alert_notes.py.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Pending

from flows import store
from flows.alert_notes import ALERT_TAG, EARLIER, LABEL, Notes, note_over, note_taken, notes_on, times
from flows.approval import REAPER, answer_run
from flows.launch import deployment_name
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from tasks.this_machine import this_process

TOKEN = "alert-token"  # noqa: S105 - a label
NEWEST = 20
FIRST_PATIENCE_S = 2.0  # the first question: a server that is down is noticed soon, and the sender told to come again
AHEAD = timedelta(seconds=120)
WHY_CLOSED = "the alert was resolved"


class Done(StrEnum):
    """What became of an alert on one runbook and target."""

    STARTED = "started"
    JOINED = "joined"
    REPEAT = "repeat"
    CLOSED = "closed"  # resolved: the waiting run is being ended with that decision
    RESOLVED = "resolved"  # resolved: the run in progress will not act any more
    NOTHING = "nothing-open"  # resolved: no run of it is open


class Start(Frozen):
    """What is to be started, and for which alert."""

    runbook: str
    target: str
    fleet: str | None
    parameters: dict[str, Any]
    key: str
    mark: str
    alert: str
    at: datetime
    same_within_s: float = 60.0

    @property
    def name(self) -> str:
        """The run's name: the same that the flow gives itself."""
        return f"{self.runbook} {self.target}"

    @property
    def text(self) -> str:
        """What is written down about this alert."""
        return f"{self.mark} {self.at.isoformat(timespec='milliseconds')} {self.alert[:80]}"


class Placed(Frozen):
    """Where an alert went."""

    done: Done
    run: str = ""
    name: str = ""


def place(start: Start) -> Placed:
    """Starts a run (Pending, owned by this process) for the alert, or says which run has it already."""
    token = uuid4().hex
    for _ in range(20):
        runs = runs_on(start)
        going = next((r for r in runs if is_open(r, start.at)), None)
        last = going or next(iter(runs), None)
        notes = notes_on(last) if last else None
        near = not (going and notes and notes.over.get(start.mark))  # else it had ended and is back while its run goes on
        known = next((r for r in runs if _has(r, notes if r is last else None, start, near)), None)
        if known:
            return Placed(done=Done.REPEAT, run=str(known.id), name=known.name)
        if going:
            note_taken(going, start.key, start.text)
            return Placed(done=Done.JOINED, run=str(going.id), name=going.name)
        made = _create(start, token, str(runs[0].id) if runs else "first", notes)
        if made.labels.get(TOKEN) == token:
            return Placed(done=Done.STARTED, run=str(made.id), name=made.name)
    raise RuntimeError(f"no run could be started for {start.name}: others were always first")


def _create(start: Start, token: str, after: str, before: Notes | None) -> FlowRun:
    """What the run before had joined goes along, so that a late repeat of it is known without asking for its notes."""
    earlier = {EARLIER + key: text for key, text in (before.text if before else {}).items()}
    return store.create_run(
        deployment_name(start.runbook),
        start.parameters,
        state=Pending(message=f"started by alert {start.alert[:80]}"),
        key=f"alert/{slug(start.fleet or '', start.target)}/after/{after}",
        name=start.name,
        tags=[store.RUNBOOK_TAG, f"runbook:{start.runbook}", ALERT_TAG],
        labels=this_process().labels()
        | dict(list(earlier.items())[-NEWEST:])
        | {LABEL + start.key: start.text, TOKEN: token, "runbook": start.runbook, "target": start.target},
    )


def runs_on(start: Start) -> list[FlowRun]:
    """The newest runs of this runbook on this target and fleet, whoever started them; newest first."""
    run_filter = FlowRunFilter(
        name=FlowRunFilterName(any_=[start.name]), tags=FlowRunFilterTags(all_=[f"runbook:{start.runbook}"])
    )
    newest = FlowRunSort.EXPECTED_START_TIME_DESC
    found = store.ask(
        lambda c: c.read_flow_runs(flow_run_filter=run_filter, sort=newest, limit=NEWEST), patience_s=FIRST_PATIENCE_S
    )
    same = [r for r in found if (r.parameters.get("fleet") or None) == start.fleet]
    return sorted(same, key=lambda r: r.created or start.at, reverse=True)


def is_open(run: FlowRun, now: datetime) -> bool:
    """True if the run goes on or waits; a run planned for later is not in progress."""
    if run.state is None or run.state.is_final():
        return False
    planned = run.state.state_details.scheduled_time if run.state.is_scheduled() else None
    return planned is None or planned - now < AHEAD


def _has(run: FlowRun, notes: Notes | None, start: Start, near: bool) -> bool:
    """This alert, or (`near`) the same one with a start time that another replica saw a little earlier or later."""
    known = (notes or Notes(run)).text
    earlier = {k.removeprefix(EARLIER): str(v) for k, v in run.labels.items() if k.startswith(EARLIER)}
    if start.key in known or start.key in earlier:
        return True
    if not near:
        return False
    found = [t for t in map(times, (*known.values(), *earlier.values())) if t]
    return any(mark == start.mark and abs((start.at - at).total_seconds()) <= start.same_within_s for mark, at in found)


def resolve(start: Start) -> Placed:
    """The alert is over. A run that waits only because of it is ended with that decision; nothing is ever started."""
    for run in (r for r in runs_on(start) if is_open(r, start.at)):
        if start.mark not in notes_on(run).over:
            continue
        note_over(run, start.mark, start.at)
        over = notes_on(run).all_over  # read again: another alert may have joined meanwhile
        closed = over and bool(run.state and run.state.is_paused()) and _close(run)
        return Placed(done=Done.CLOSED if closed else Done.RESOLVED, run=str(run.id), name=run.name)
    return Placed(done=Done.NOTHING)


def _close(run: FlowRun) -> bool:
    """Answers the waiting run. If the server does not take it (it just went on), the reaper does so by the notes."""
    return answer_run(str(run.id), {"decision": "reject", "who": REAPER, "why": WHY_CLOSED}) == ""
