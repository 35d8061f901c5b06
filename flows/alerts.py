"""One run for one alert: starts it, joins it to the run in progress, or closes what it began. Prefect is the only record.

The runs of one runbook on one target form a chain: the idempotency key of each is "after" the newest one before it, so that
of any number of gateways asking at once the server lets one create the next run, and the others join that one. Which alerts a
run has taken up stands in its labels: `alert.<key>` = fingerprint's mark, time, name; `cleared.<mark>` when that was resolved.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Pending

from flows import store
from flows.approval import REAPER, answer_run
from flows.launch import deployment_name
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from tasks.this_machine import this_process

ALERT_TAG = "alert"
TAKEN, CLEARED, TOKEN = "alert.", "cleared.", "alert-token"
RESOLVED = store.RESOLVED
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
    def taken(self) -> dict[str, str]:
        """The label that says that a run has taken up this alert."""
        return {TAKEN + self.key: f"{self.mark} {self.at.isoformat(timespec='milliseconds')} {self.alert[:80]}"}


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
        known = next((r for r in runs if _has(r, start)), None)
        if known:
            return Placed(done=Done.REPEAT, run=str(known.id), name=known.name)
        going = next((r for r in runs if is_open(r, start.at)), None)
        if going:
            store.label(going.id, start.taken | {CLEARED + start.mark: "", RESOLVED: ""})
            return Placed(done=Done.JOINED, run=str(going.id), name=going.name)
        made = _create(start, token, str(runs[0].id) if runs else "first")
        if made.labels.get(TOKEN) == token:
            return Placed(done=Done.STARTED, run=str(made.id), name=made.name)
    raise RuntimeError(f"no run could be started for {start.name}: others were always first")


def _create(start: Start, token: str, after: str) -> FlowRun:
    return store.create_run(
        deployment_name(start.runbook),
        start.parameters,
        state=Pending(message=f"started by alert {start.alert[:80]}"),
        key=f"alert/{slug(start.fleet or '', start.target)}/after/{after}",
        name=start.name,
        tags=[store.RUNBOOK_TAG, f"runbook:{start.runbook}", ALERT_TAG],
        labels=this_process().labels() | start.taken | {TOKEN: token, "runbook": start.runbook, "target": start.target},
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


def _has(run: FlowRun, start: Start) -> bool:
    """This alert, or the same one with a start time that another replica saw a little earlier or later."""
    if TAKEN + start.key in run.labels:
        return True
    return any(
        mark == start.mark and abs((start.at - at).total_seconds()) <= start.same_within_s
        for mark, at in taken_up(run)
    )


def taken_up(run: FlowRun) -> Iterable[tuple[str, datetime]]:
    """(mark, when) of each alert that the run has taken up."""
    for name, value in run.labels.items():
        words = str(value).split(" ", 2)
        if name.startswith(TAKEN) and len(words) >= 2:
            yield words[0], datetime.fromisoformat(words[1])


def resolve(start: Start) -> Placed:
    """The alert is over. A run that waits only because of it is ended with that decision; nothing is ever started."""
    for run in runs_on(start):
        marks = {mark for mark, _ in taken_up(run)}
        if start.mark not in marks or not is_open(run, start.at):
            continue
        at = start.at.isoformat(timespec="milliseconds")
        left = [m for m in marks if m != start.mark and not run.labels.get(CLEARED + m)]
        over = not left and ALERT_TAG in run.tags
        store.label(run.id, {CLEARED + start.mark: at} | ({RESOLVED: at} if over else {}))
        closed = over and bool(run.state and run.state.is_paused()) and _close(run)
        return Placed(done=Done.CLOSED if closed else Done.RESOLVED, run=str(run.id), name=run.name)
    return Placed(done=Done.NOTHING)


def _close(run: FlowRun) -> bool:
    """Answers the waiting run. If the server does not take it (it just went on), the reaper does so by the label."""
    return answer_run(str(run.id), {"decision": "reject", "who": REAPER, "why": WHY_CLOSED}) == ""
