"""Who ends a run, and when: a row for every state of Prefect and every kind of run. Data only; `reaper.py` goes by it."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType

from flows import store

PENDING_LIMIT = timedelta(seconds=30)  # its creator is gone: the workers take it
STARTING_LIMIT = timedelta(seconds=120)  # a worker's process that is slow to start
QUEUED_LIMIT = timedelta(minutes=15)  # its creator lives, and does not come to begin it
UNOWNED_LIMIT = timedelta(seconds=90)
RESUMING_LIMIT = timedelta(seconds=30)
ENDING_LIMIT = timedelta(seconds=240)  # from a cancellation to its end by its own process; Prefect itself waits 300 s
ABOUT_NOW = timedelta(seconds=120)  # a run that is planned for then is as good as begun
TAKEN_LIMIT = timedelta(hours=24)  # from its planned time to a worker that takes it
ASKED_LIMIT = timedelta(days=30)  # a question that names no time until which it counts
LOOK_BACK = timedelta(days=7)  # runs that ended badly so long ago are looked at, however long they waited before
LONGEST = timedelta(hours=6)  # from its start, or from the answer of a person, to its end
LONGEST_BY_NAME = {
    "nightly": timedelta(hours=12),
    "nightly-shard": timedelta(hours=6),
    "sweep": timedelta(hours=1),
}


class RunKind(StrEnum):
    """What a run of ours is."""

    RUNBOOK = "runbook run"
    ACTION = "action run"
    SWEEP = "nightly, sweep or a part of one"


class ReaperDuty(StrEnum):
    """What the reaper does with it in each of its rounds: the name of a function (`reaper.HANDLERS`)."""

    ACT = "act"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    BROKEN_OFF = "broken-off"
    NOTHING = "nothing"


class StateRow(NamedTuple):
    """One row: what the reaper does, and in words who ends the run, and when."""

    does: ReaperDuty
    who: str
    when: str


_OVER = StateRow(ReaperDuty.NOTHING, "it has ended", "now")
_ACT_OVER = StateRow(ReaperDuty.NOTHING, "it has ended", "now; its owner is free when its steps are over, whatever the state says")
_ACT = StateRow(ReaperDuty.ACT, "its runbook run; the reaper", "at its end; when its process is gone or its runbook run has ended")
_SCHEDULED = StateRow(
    ReaperDuty.SCHEDULED, "a worker takes it; the reaper", f"at its time; {TAKEN_LIMIT} after it, if no worker took it"
)
_PENDING = StateRow(
    ReaperDuty.PENDING,
    "the process that created it, or a worker",
    f"at once; {PENDING_LIMIT} after its creator is gone, or {QUEUED_LIMIT} although it lives, it goes to the workers",
)
_RUNNING = StateRow(
    ReaperDuty.RUNNING,
    "its process; the reaper",
    f"at its end; when its process is gone, or after {LONGEST} (nightly {LONGEST_BY_NAME['nightly']}): "
    "then it is cancelled and its target looked at again",
)
_CANCELLING = StateRow(
    ReaperDuty.CANCELLING,
    "its process; the reaper",
    f"at its next safe point; when its process is gone, or after {ENDING_LIMIT}: as Cancelled",
)
_HAND_PAUSED = "its process; the reaper, when that is gone or the run's longest time is over"
_BROKEN_OFF = StateRow(ReaperDuty.BROKEN_OFF, "it has ended", "the target is looked at again, once, if it crashed or was changed")

OPEN = tuple(s for s in StateType if s not in TERMINAL_STATES)

TABLE: dict[tuple[StateType, RunKind], StateRow] = {
    (StateType.SCHEDULED, RunKind.RUNBOOK): _SCHEDULED,
    (StateType.SCHEDULED, RunKind.ACTION): StateRow(ReaperDuty.ACT, "the reaper", "at once: an action never runs twice"),
    (StateType.SCHEDULED, RunKind.SWEEP): _SCHEDULED,
    (StateType.PENDING, RunKind.RUNBOOK): _PENDING,
    (StateType.PENDING, RunKind.ACTION): _ACT,
    (StateType.PENDING, RunKind.SWEEP): _PENDING,
    (StateType.RUNNING, RunKind.RUNBOOK): _RUNNING,
    (StateType.RUNNING, RunKind.ACTION): _ACT,
    (StateType.RUNNING, RunKind.SWEEP): _RUNNING,
    (StateType.PAUSED, RunKind.RUNBOOK): StateRow(
        ReaperDuty.PAUSED,
        "a person; the reaper",
        f"by an answer; when the time for it or the alert is over. Paused by hand, without a question: {_HAND_PAUSED}",
    ),
    (StateType.PAUSED, RunKind.ACTION): _ACT,
    (StateType.PAUSED, RunKind.SWEEP): StateRow(ReaperDuty.PAUSED, _HAND_PAUSED, "then"),
    (StateType.CANCELLING, RunKind.RUNBOOK): _CANCELLING,
    (StateType.CANCELLING, RunKind.ACTION): _ACT,
    (StateType.CANCELLING, RunKind.SWEEP): _CANCELLING,
    (StateType.COMPLETED, RunKind.RUNBOOK): _OVER,
    (StateType.COMPLETED, RunKind.ACTION): _ACT_OVER,
    (StateType.COMPLETED, RunKind.SWEEP): _OVER,
    (StateType.FAILED, RunKind.RUNBOOK): _OVER,
    (StateType.FAILED, RunKind.ACTION): _ACT_OVER,
    (StateType.FAILED, RunKind.SWEEP): _OVER,
    (StateType.CRASHED, RunKind.RUNBOOK): _BROKEN_OFF,
    (StateType.CRASHED, RunKind.ACTION): _ACT_OVER,
    (StateType.CRASHED, RunKind.SWEEP): _BROKEN_OFF,
    (StateType.CANCELLED, RunKind.RUNBOOK): _BROKEN_OFF,
    (StateType.CANCELLED, RunKind.ACTION): _ACT_OVER,
    (StateType.CANCELLED, RunKind.SWEEP): _BROKEN_OFF,
}


def name_of(run: FlowRun) -> str:
    """The runbook's name; "nightly", "sweep" or "nightly-shard" for a sweep; "" where the run does not say."""
    tagged = next((t.removeprefix("runbook:") for t in run.tags if t.startswith("runbook:")), "")
    return tagged or str(run.labels.get("runbook", ""))


def kind_of(run: FlowRun) -> RunKind:
    """What kind of run this is."""
    if store.ACT_TAG in run.tags:
        return RunKind.ACTION
    return RunKind.SWEEP if name_of(run) in LONGEST_BY_NAME else RunKind.RUNBOOK


def row_of(run: FlowRun) -> StateRow:
    """The row for this run as it stands. Raises KeyError for a state that nobody thought of."""
    if run.state_type is None:
        raise KeyError(f"run {run.name} has no state")
    return TABLE[run.state_type, kind_of(run)]


def states_for(kinds: tuple[RunKind, ...], does: tuple[ReaperDuty, ...]) -> tuple[StateType, ...]:
    """The states in which the reaper does one of these with runs of these kinds."""
    return tuple(dict.fromkeys(s for (s, kind), row in TABLE.items() if kind in kinds and row.does in does))


def longest(run: FlowRun) -> timedelta:
    """How long such a run may be at work; waiting for a person does not count."""
    return LONGEST_BY_NAME.get(name_of(run), LONGEST)
