"""Which run an alert is left to: only one that somebody living is at work on. What is remembered about its alerts."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, FlowRunInput, State
from prefect.states import Cancelling, Completed, Failed, Pending, Running, Scheduled

from flows import alert_notes, alerts, store
from flows.alert_notes import OVER, TOOK, Notes, note_over, note_taken, notes_on, void
from flows.alerts import AlertOutcome, place, resolve, runs_on
from flows.clock import server_now
from flows.engine.liveness import joinable
from flows.engine.ownership import SIGNED
from flows.engine.state_table import LONGEST, QUEUED_LIMIT
from tasks.this_machine import Owner, this_process
from tests.faults.test_states import dead_process
from tests.gateway.test_chain import start
from tests.support.engine_rig import Rig
from tests.support.set_state import set_state

pytestmark = pytest.mark.usefixtures("nothing_left")


def run_on(target: str, state: State[Any], owner: Owner, fleet: str = "/f.yaml", key: str = "") -> str:
    run = store.create_run(
        "zombie-gpu/zombie-gpu",
        {"target": target, "mode": "diagnose", "fleet": fleet},
        state=Pending(),
        key=key or uuid4().hex,
        name=f"zombie-gpu {target}",
        tags=[store.RUNBOOK_TAG, "runbook:zombie-gpu"],
        labels=owner.labels(),
    )
    set_state(run.id, state)
    now = store.read_run(run.id).state
    store.label(run.id, {SIGNED: str(now.id) if now else ""})
    return str(run.id)


JOINS: list[tuple[Callable[[], State[Any]], bool, bool]] = [  # state, owner lives, joined
    (Running, True, True),
    (Running, False, False),
    (Pending, True, True),
    (Pending, False, False),
    (Cancelling, True, False),
    (Cancelling, False, False),
    (Scheduled, False, True),  # a worker takes it about now
    (lambda: Scheduled(scheduled_time=server_now() + timedelta(hours=1)), False, False),
    (lambda: Scheduled(scheduled_time=server_now() - timedelta(hours=1)), False, False),  # no worker took it
    (Completed, False, False),
]


def test_an_alert_joins_only_a_run_that_somebody_living_is_at_work_on(rig: Rig) -> None:
    dead = dead_process()
    for state, lives, joined in JOINS:
        target = f"j{uuid4().hex[:8]}"
        run = run_on(target, state(), this_process() if lives else dead)
        placed = place(start(target, "k"))
        assert (placed.done, placed.run == run) == (AlertOutcome.JOINED if joined else AlertOutcome.STARTED, joined), state()
        assert place(start(target, "k")).done is AlertOutcome.REPEAT


def test_a_run_that_hangs_is_not_joined(rig: Rig) -> None:
    pending, running = (run_on("t", s(), this_process()) for s in (Pending, Running))
    now = server_now()
    for run, limit in ((pending, QUEUED_LIMIT), (running, LONGEST)):
        found = store.read_run(run)
        assert joinable(found, now)
        assert not joinable(found, now + limit + timedelta(seconds=5))


@pytest.mark.parametrize(
    ("outcome", "again"), [("cannot-tell", True), ("cancelled", True), ("", True), ("sick", False), ("fixed", False)]
)
def test_an_alert_whose_run_came_to_no_answer_is_looked_at_again(rig: Rig, outcome: str, again: bool) -> None:
    target = f"a{uuid4().hex[:8]}"  # -5 s: at once, although the server's clock is known here to a second only
    first = place(start(target, "k"))
    assert place(start(target, "k", repeat_s=-5)).done is AlertOutcome.REPEAT  # it is at work
    store.label(first.run, {"outcome": outcome} if outcome else {})
    set_state(first.run, Failed() if outcome == "" else Completed())
    assert place(start(target, "k")).done is AlertOutcome.REPEAT  # at most once in repeat_s
    second = place(start(target, "k", repeat_s=-5))
    assert second.done is (AlertOutcome.STARTED if again else AlertOutcome.REPEAT)
    assert place(start(target, "k", repeat_s=-5)).run == second.run


def test_more_runs_than_are_looked_at_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open run is found however many came after it, and the newest of this fleet among many of another."""
    monkeypatch.setattr(alerts, "NEWEST", 3)
    target = f"m{uuid4().hex[:8]}"
    first = place(start(target, "k"))
    ended = [run_on(target, Completed(), this_process()) for _ in range(4)]
    others = [run_on(target, Completed(), this_process(), "/other.yaml") for _ in range(4)]
    found = [str(r.id) for r in runs_on(start(target, "k2"))]
    assert found == [*reversed(ended[1:]), first.run]
    assert not set(others) & set(found)
    assert resolve(start(target, "k")).run == first.run


def test_notes_are_taken_away_when_newer_ones_make_them_void(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_notes, "TIDY_AT", 20)
    target = f"n{uuid4().hex[:8]}"
    run = store.read_run(place(start(target, "first")).run)
    for k in range(40):  # an alert that flaps, beside one that goes on
        note_taken(run, f"flap-{k}", f"flap 2026-01-01T00:00:{k:02}+00:00 Flaps")
        if k == 3:
            note_taken(run, "stays", "stays 2026-01-01T00:00:00+00:00 Stays")
        note_over(run, "flap", datetime.now(UTC))
        notes_on(run)
    assert len(store.inputs(run.id, alert_notes.NOTE, 1000)) <= 22
    said = notes_on(run)
    assert said.over == {"m": False, "stays": False, "flap": True}
    assert "flap-39" in said.text


AT = "2026-01-01T00:00:00+00:00"


def test_void_notes_say_nothing() -> None:
    """Whatever was written, and in whatever order the void ones go: what the run says of every alert is the same."""
    rng = random.Random(7)
    run = FlowRun.model_construct(flow_id=uuid4(), labels={"alert.k": f"own {AT} since={AT} A"}, tags=["alert"])
    for _ in range(200):
        notes = [_note(rng, i) for i in range(rng.randrange(0, 3 * alert_notes.TIDY_AT))]
        gone = void(notes, run)
        cut = {n.key for n in gone[: rng.randrange(0, len(gone) + 1)]}
        before, after = Notes(run, notes), Notes(run, [n for n in notes if n.key not in cut])
        assert after.all_over == before.all_over
        assert all(before.over[mark] == over for mark, over in after.over.items())
        assert all(over for mark, over in before.over.items() if mark not in after.over)
        assert "own" in after.over
        assert len(notes) - len(gone) <= alert_notes.TIDY_AT + 60


def _note(rng: random.Random, i: int) -> FlowRunInput:
    mark = rng.choice(["own", *(f"m{k}" for k in range(20))])
    took, at = rng.random() < 0.5, f"2026-01-01T00:00:{rng.randrange(60):02}+00:00"
    said = f" {'since' if took else 'ended'}={at}" if rng.random() < 0.8 else ""
    key = f"{TOOK}{mark}-{i}" if took else f"{OVER}{mark}-{i}"
    return FlowRunInput.model_construct(flow_run_id=uuid4(), key=key, value=f"{mark} {AT}{said} x")
