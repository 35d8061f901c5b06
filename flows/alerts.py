"""One run for one alert: starts it, joins it to the run in progress, or closes what it began. Prefect is the only record.

The runs of one runbook on one target form a chain: the idempotency key of each is "after" the newest one before it, so that
of any number of gateways asking at once the server lets one create the next run, and the others join that one. Which alerts a
run has taken up, and which are over, stands in alert_notes.py.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun
from prefect.states import Pending

from flows import store
from flows.alert_notes import ALERT_TAG, EARLIER, LABEL, SINCE, Notes, note_over, note_taken, notes_on, times
from flows.clock import server_now
from flows.engine.approval import REAPER, answer_run
from flows.engine.liveness import joinable
from flows.engine.state_table import OPEN
from flows.engine.waiting_name import WAITS, usual_name
from flows.launch import deployment_name
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from runbooks.core.outcome import Outcome
from tasks.this_machine import this_process

TOKEN = "alert-token"  # noqa: S105 - a label
NEWEST = 20
FIRST_PATIENCE_S = 2.0  # the first question: a server that is down is noticed soon, and the sender told to come again
WHY_CLOSED = "the alert was resolved"


class AlertOutcome(StrEnum):
    """What became of an alert on one runbook and target."""

    STARTED = "started"
    JOINED = "joined"
    REPEAT = "repeat"
    CLOSED = "closed"  # resolved: the waiting run is being ended with that decision
    RESOLVED = "resolved"  # resolved: the run in progress will not act any more
    OLD_END = "old-end"  # resolved: of an earlier time than the alert that is open; it ends nothing
    NOTHING = "nothing-open"  # resolved: no run of it is open


class AlertStart(Frozen):
    """What is to be started, and for which alert."""

    runbook: str
    target: str
    fleet: str | None
    parameters: dict[str, Any]
    key: str
    mark: str
    alert: str
    at: datetime
    began: datetime | None = None  # the alert, by its sender's clock
    ended: datetime | None = None  # the same clock; None: while it fires, or where its sender does not say
    same_within_s: float = 60.0
    repeat_s: float = 3600.0

    @property
    def name(self) -> str:
        """The run's name: the same that the flow gives itself."""
        return f"{self.runbook} {self.target}"

    @property
    def text(self) -> str:
        """What is written down about this alert."""
        since = f"{SINCE}{self.began.isoformat(timespec='milliseconds')} " if self.began else ""
        return f"{self.mark} {self.at.isoformat(timespec='milliseconds')} {since}{self.alert[:80]}"

    @property
    def end(self) -> datetime | None:
        """Which beginnings this end is not older than. Without a time of its own: what its replicas may have seen as one."""
        return self.ended or (self.began + timedelta(seconds=self.same_within_s) if self.began else None)


class AlertPlacement(Frozen):
    """Where an alert went."""

    done: AlertOutcome
    run: str = ""
    name: str = ""


def place(start: AlertStart) -> AlertPlacement:
    """Starts a run (Pending, owned by this process) for the alert, or says which run has it already."""
    token = uuid4().hex
    for _ in range(20):
        runs = runs_on(start)
        now = server_now()
        going = next((r for r in runs if joinable(r, now)), None)
        last = going or next(iter(runs), None)
        notes = notes_on(last) if last else None
        near = not (going and notes and notes.over.get(start.mark))  # else it had ended and is back while its run goes on
        known = next((r for r in runs if _has(r, notes if r is last else None, start, near)), None)
        if known and not (going is None and _is_due_again(runs[0], now, start.repeat_s)):
            return AlertPlacement(done=AlertOutcome.REPEAT, run=str(known.id), name=known.name)
        if going:
            note_taken(going, start.key, start.text)
            return AlertPlacement(done=AlertOutcome.JOINED, run=str(going.id), name=going.name)
        made = _create(start, token, str(runs[0].id) if runs else "first", notes)
        if made.labels.get(TOKEN) == token:
            return AlertPlacement(done=AlertOutcome.STARTED, run=str(made.id), name=made.name)
    raise RuntimeError(f"no run could be started for {start.name}: others were always first")


def _create(start: AlertStart, token: str, after: str, before: Notes | None) -> FlowRun:
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


def runs_on(start: AlertStart) -> list[FlowRun]:
    """This runbook's runs on this target and fleet, whoever started them, newest first: the newest 20, and every open one."""
    tags = [f"runbook:{start.runbook}"]
    waiting = _waiting(tags, start)
    page = store.find_runs(tags, limit=NEWEST, patience_s=FIRST_PATIENCE_S, name=start.name)
    waiting += _waiting(tags, start)  # one that began to wait, and so changed its name, between the two questions before
    found, asked = _of_fleet(page, start), len(page)
    if asked == NEWEST:  # there may be more
        waits = _of_fleet(store.find_runs(tags, OPEN, name=start.name), start)
        while page and len(found) < NEWEST:
            page = store.find_runs(tags, limit=store.PAGE, offset=asked, name=start.name)
            found, asked = found + _of_fleet(page, start), asked + len(page)
        found = found[:NEWEST] + waits
    return sorted({r.id: r for r in (*waiting, *found)}.values(), key=lambda r: r.created or start.at, reverse=True)


def _waiting(tags: list[str], start: AlertStart) -> list[FlowRun]:
    """Its open runs under the name that they have while they wait for a person."""
    named = store.find_runs(tags, OPEN, patience_s=FIRST_PATIENCE_S, name_has=f"{start.name}{WAITS}")
    return _of_fleet([r for r in named if usual_name(r.name) == start.name], start)


def _of_fleet(runs: list[FlowRun], start: AlertStart) -> list[FlowRun]:
    return [r for r in runs if (r.parameters.get("fleet") or None) == start.fleet]


def _is_due_again(newest: FlowRun, now: datetime, repeat_s: float) -> bool:
    """The newest run came to no answer, and the alert is still there: looked at again, once in `repeat_s`."""
    said = str(newest.labels.get("outcome", ""))
    ended = bool(newest.state and newest.state.is_final())
    old = newest.created is None or (now - newest.created).total_seconds() >= repeat_s
    return ended and old and said in ("", Outcome.CANNOT_TELL.value, Outcome.CANCELLED.value)


def _has(run: FlowRun, notes: Notes | None, start: AlertStart, near: bool) -> bool:
    """This alert, or (`near`) the same one with a start time that another replica saw a little earlier or later."""
    known = (notes or Notes(run)).text
    earlier = {k.removeprefix(EARLIER): str(v) for k, v in run.labels.items() if k.startswith(EARLIER)}
    if start.key in known or start.key in earlier:
        return True
    if not near:
        return False
    found = [t for t in map(times, (*known.values(), *earlier.values())) if t]
    return any(mark == start.mark and abs((start.at - at).total_seconds()) <= start.same_within_s for mark, at in found)


def resolve(start: AlertStart) -> AlertPlacement:
    """The alert is over. A run that waits only because of it is ended with that decision; nothing is ever started."""
    placed = AlertPlacement(done=AlertOutcome.NOTHING)
    for run in (r for r in runs_on(start) if r.state and not r.state.is_final()):
        notes = notes_on(run)
        if start.mark not in notes.over:
            continue
        if notes.is_old(start.mark, start.end):
            placed = placed if placed.done is not AlertOutcome.NOTHING else AlertPlacement(done=AlertOutcome.OLD_END, run=str(run.id),
                name=run.name)
            continue
        note_over(run, start.mark, start.at, start.end)
        over = notes_on(run).all_over  # read again: another alert may have joined meanwhile
        closed = over and bool(run.state and run.state.is_paused()) and _close(run)
        if placed.done in (AlertOutcome.NOTHING, AlertOutcome.OLD_END) or closed:
            placed = AlertPlacement(done=AlertOutcome.CLOSED if closed else AlertOutcome.RESOLVED, run=str(run.id), name=run.name)
    return placed


def _close(run: FlowRun) -> bool:
    """Answers the waiting run. If the server does not take it (it just went on), the reaper does so by the notes."""
    return answer_run(str(run.id), {"decision": "reject", "who": REAPER, "why": WHY_CLOSED}) == ""
