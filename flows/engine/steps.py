"""The record of an action's steps: rows beside its run that only one asker can create, whatever its state and labels say.

    step-<i>         who began it, and how long it may run; or that nobody may begin it any more
    step-<i>-ended   how it ended, where that was seen
    step-<i>-over    somebody who asked the machine says that nothing of it runs there any more

The server gives each row to one asker. So the start of a step and its revocation exclude each other, and a step that
began and was not seen to end keeps its owner locked until its time has passed, even if its run was cancelled by hand.
"""

import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, FlowRunInput

from flows import store
from runbooks.core.base import Frozen
from runbooks.core.refusal import RefusalCode
from runbooks.core.times import utc
from tasks.context import ActionRefused
from tasks.installation import state_folder
from tasks.this_machine import this_process

log = logging.getLogger("flows.steps")

START_S = 20.0  # from the row to the command: a process that was stopped for longer in between may not go on
MARGIN_S = 40.0  # besides START_S: connecting, ending what ran out of time, the answer on its way
RECORD_S = 120.0  # how long a step's end is offered to a server that does not answer
MOST = 1000  # rows of one action run
SETTLED = "steps.settled"  # label that its own process writes when every step that it began has ended
WITHDRAWN = "withdrawn"  # begun, and then not done after all: nothing was changed
RUNS_ON = "runs-on"  # it gave no answer, or said that its command goes on: its time has to pass


class StepRecord(Frozen):
    """One step of an action run that somebody began, or that nobody may begin."""

    i: int
    kind: str
    begun_at: datetime  # by the server's clock
    until: datetime  # nothing of it runs any more after this
    revoked: str = ""  # why nobody may begin it
    ended: str = ""  # how it ended; "" if nobody saw that
    over: str = ""  # who says that nothing of it runs any more

    @property
    def begun(self) -> bool:
        """True if it may have changed something."""
        return not self.revoked and self.ended != WITHDRAWN

    def open_at(self, now: datetime) -> bool:
        """True while its command may still be at work."""
        return self.begun and self.ended in ("", RUNS_ON) and not self.over and now < self.until

    def __str__(self) -> str:
        how = {"": "started (outcome not seen)", RUNS_ON: "started (it may still run)"}.get(self.ended, self.ended)
        return f"{self.kind}: {how}"


class StartedStep:
    """A step that this process began: it must start within START_S, by each of two clocks."""

    def __init__(self, act_run: str, i: int) -> None:
        self.act_run, self.i = act_run, i
        self._at = (time.monotonic(), time.time())

    def check(self) -> None:
        """Raises ActionRefused if this process was held up since it asked for the step: its time may be over."""
        now = (time.monotonic(), time.time())
        if max(b - a for a, b in zip(self._at, now, strict=True)) > START_S:
            said = f"this process was held up for more than {START_S:.0f} s before the step: it may not start it"
            raise ActionRefused(RefusalCode.EXPIRED, said)


def begin(act_run: str, i: int, token: str, kind: str, deadline_s: float) -> StartedStep:
    """Takes the right to do step `i`, for `deadline_s` seconds. Raises ActionRefused if another has it, or nobody may."""
    begun = StartedStep(act_run, i)
    row = {"by": token, "kind": kind, "deadline_s": deadline_s, "process": this_process().model_dump()}
    mine = json.dumps(row, sort_keys=True)
    stored = store.store_input_once(act_run, f"step-{i}", mine)
    if stored != mine:
        why = str(_row(stored).get("revoked", "")) or "another process started it"
        raise ActionRefused(RefusalCode.SUPERSEDED, f"step {i + 1} ({kind}) may not start: {why}")
    return begun


def ended(act_run: str, i: int, outcome: str, patience_s: float = store.PATIENCE_S) -> None:
    """Writes down how step `i` ended; asks again for `patience_s` while the server does not answer."""
    store.store_input_once(act_run, f"step-{i}-ended", json.dumps({"outcome": outcome}), patience_s)


def record(act_run: str, i: int, outcome: str, patience_s: float | None = None) -> bool:
    """The same, for RECORD_S if nothing else is said. False: the server did not answer, it is not written yet.

    No change that was made is called failed for that: it is kept in a file of this machine first, to be written later.
    """
    note = _remember(act_run, i, outcome)
    try:
        ended(act_run, i, outcome, RECORD_S if patience_s is None else patience_s)
    except Exception as e:
        log.error("step %s of act run %s: %s; its record is not written yet: %s", i + 1, act_run, outcome, e)
        return False
    with suppress(OSError):
        note.unlink()
    return True


def _notes() -> Path:
    return state_folder() / "steps"


def _remember(act_run: str, i: int, outcome: str) -> Path:
    note = _notes() / f"{act_run}.{i}"
    with suppress(OSError):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(outcome, encoding="utf-8")
    return note


def deliver(act_run: UUID | str) -> None:
    """Writes down what processes of this machine could not write about that action run."""
    for note in sorted(_notes().glob(f"{act_run}.*")):
        ended(str(act_run), int(note.suffix[1:]), note.read_text(encoding="utf-8").strip() or "?")
        note.unlink(missing_ok=True)


def label_steps(act_run: str, kinds: Sequence[str], ends: Sequence[str]) -> None:
    """Labels for whoever looks at the run in the UI, and so that its rows need not be read for ever after. Never raises."""
    said = {f"step.{i}": f"{kind}: {end}" for i, (kind, end) in enumerate(zip(kinds, ends, strict=True)) if end}
    settled = {} if RUNS_ON in ends else {SETTLED: "yes"}
    try:
        store.label(act_run, said | settled)
        deliver(act_run)
    except Exception as e:
        log.error("act run %s could not be labelled: %s", act_run, e)


def over(act_run: str, i: int, who: str) -> None:
    """Frees the owner before the step's time has passed. Only for somebody who asked the machine: nothing of it runs."""
    store.store_input_once(act_run, f"step-{i}-over", json.dumps({"by": who}))


def revoke(run: FlowRun, why: str) -> None:
    """Nobody can begin a step of this action run from now on. Steps that began are not undone: see `unfinished`."""
    asked = json.dumps({"revoked": why, "by": this_process().model_dump()}, sort_keys=True)
    known = {s.i: s for s in read_steps(run.id)}
    for i in range(len(run.parameters.get("steps", ()))):
        stored = "" if i in known else store.store_input_once(run.id, f"step-{i}", asked)
        if _row(stored).get("revoked") or (i in known and known[i].revoked):
            return  # steps are begun in order: whoever does not get this one stops


def read_steps(act_run: UUID | str) -> tuple[StepRecord, ...]:
    """Every step of an action run that has a row, in order."""
    rows = {r.key: r for r in store.inputs(act_run, "step-", MOST)}
    numbers = sorted(int(n) for key in rows if (n := key.removeprefix("step-")).isdecimal())
    return tuple(_step(i, rows) for i in numbers)


def _step(i: int, rows: dict[str, FlowRunInput]) -> StepRecord:
    row, last, free = rows[f"step-{i}"], rows.get(f"step-{i}-ended"), rows.get(f"step-{i}-over")
    facts, at = _row(row.value), row.created or datetime.now(UTC)  # the server gives each row its time
    return StepRecord(
        i=i,
        kind=str(facts.get("kind", "?")),
        begun_at=at,
        until=at + timedelta(seconds=float(facts.get("deadline_s", 0)) + START_S + MARGIN_S),
        revoked=str(facts.get("revoked", "")),
        ended=str(_row(last.value).get("outcome", "?")) if last else "",
        over=str(_row(free.value).get("by", "?")) if free else "",
    )


def _row(text: str) -> dict[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def began(run: FlowRun) -> bool:
    """True if a step of this action run was begun: each is written down before it touches anything."""
    if any(key.startswith("step.") for key in run.labels):
        return True
    return run.start_time is not None and SETTLED not in run.labels and any(s.begun for s in read_steps(run.id))


def unfinished(run: FlowRun, now: datetime) -> str:
    """A sentence while a step of this action run may still be at work, whatever its state says; "" otherwise."""
    if run.start_time is None or SETTLED in run.labels:
        return ""
    at_work = [s for s in read_steps(run.id) if s.open_at(now)]
    return "; ".join(
        f"step {s.i + 1} ({s.kind}) started at {utc(s.begun_at)}, its end was not seen, "
        f"and it may run until {utc(s.until)}"
        for s in at_work
    )


def left_behind(run: FlowRun) -> str:
    """What an action run's steps came to, in words."""
    found = [s for s in read_steps(run.id) if s.begun]
    if found:
        return "; ".join(map(str, found))
    old = sorted((k, str(v)) for k, v in run.labels.items() if k.startswith("step."))  # before there were rows
    said = [f"{v} (outcome not seen)" if v.endswith("begun") else v for _, v in old]
    return "; ".join(said) or "no step had started"
