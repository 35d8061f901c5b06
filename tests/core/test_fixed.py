"""Fixed means: every step was done, what the plan was for is seen gone, and nothing else is seen to be wrong.

Written against mutants: what no assertion here notices, `make prove` reports.
"""

import pytest

from runbooks.core.fixed import ended_as, failed_proof, part_left, seen_gone, steps_left
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Step
from runbooks.core.report import ActionRecord
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State


def step(kind: str, owner: str) -> Step:
    return Step(kind=kind, owner=owner, args={}, commands=(), effect="")


A, B, C = step("toy-fix", "node"), step("toy-restart", "leader"), step("toy-wipe", "node")
PLAN = Plan(name="recreate", steps=(A, B, C), for_causes=("keep-alive-ended",), also_gone=("raylet-gone",))


def look(state: State, *left: str, certainty: Certainty = Certainty.CONFIRMED) -> Diagnosis:
    causes = tuple(Cause(slug=c, certainty=certainty, subject="s", evidence=("e",)) for c in left)
    return Diagnosis(state=state, headline="h", causes=causes, must_not=("nothing",))


def act(owner: str, outcome: str = "done", *steps: str, kinds: tuple[str, ...] = ()) -> ActionRecord:
    return ActionRecord(owner=owner, kinds=kinds, act_run="r", digest="d", outcome=outcome, steps=steps)


# --- is the fault seen gone? ---


@pytest.mark.parametrize(
    ("state", "left", "gone"),
    [
        (State.HEALTHY, (), True),
        (State.UNHEALTHY, ("keep-alive-ended",), False),
        (State.UNHEALTHY, ("raylet-gone",), False),
        (State.UNHEALTHY, ("disk-full", "raylet-gone"), False),
        (State.UNHEALTHY, ("disk-full",), True),
        (State.CANNOT_TELL, (), False),
        (State.NOT_APPLICABLE, (), False),
    ],
)
def test_gone(state: State, left: tuple[str, ...], gone: bool) -> None:
    assert seen_gone(PLAN, look(state, *left)) is gone


@pytest.mark.parametrize(("state", "gone"), [(State.HEALTHY, True), (State.UNHEALTHY, False), (State.CANNOT_TELL, False)])
def test_a_cause_is_not_seen_gone_where_what_it_rests_on_was_not_read(state: State, gone: bool) -> None:
    """Beside another finding; where all else is well, runbook.yaml names the reading that stands for it."""
    left = ("disk-full",) if state is State.UNHEALTHY else ()
    assert seen_gone(PLAN, look(state, *left), unread=["fuse"]) is gone


def test_a_cause_that_is_ruled_out_is_gone() -> None:
    assert seen_gone(PLAN, look(State.HEALTHY, "keep-alive-ended", certainty=Certainty.RULED_OUT)) is True


# --- which steps were not done? ---


def test_steps_left_by_number_and_owner() -> None:
    assert steps_left(PLAN, [act("node", "done", "done", "done"), act("leader", "done", "done")]) == ()
    assert steps_left(PLAN, []) == ((1, A, "not begun"), (2, B, "not begun"), (3, C, "not begun"))
    assert steps_left(PLAN, [act("node", "failed", "done", "failed"), act("leader", "done", "done")]) == ((3, C, "failed"),)
    assert steps_left(PLAN, [act("node", "failed", "failed"), act("leader", "done", "done")]) == ((1, A, "failed"), (3, C, "not begun"))


def test_what_is_left_for_a_person() -> None:
    some = [act("node", "failed", "done", "failed"), act("leader", "done", "done")]
    assert part_left(PLAN, some) == PLAN.model_copy(update={"steps": (C,)})


def test_an_action_that_does_not_say_how_its_steps_ended_counts_for_all_of_them() -> None:
    assert steps_left(PLAN, [act("node", "unfinished"), act("leader")]) == ((1, A, "unfinished"), (3, C, "unfinished"))


# --- did a proof fail? ---


def test_a_proof_that_failed() -> None:
    proof = act("etcd", "failed", kinds=("delete-run-keys", "probe-rendezvous"))
    other = act("node", "failed", kinds=("terminate-processes",))
    assert failed_proof([other, proof], ["probe-rendezvous"]) is proof
    assert failed_proof([other], ["probe-rendezvous"]) is None
    assert failed_proof([act("etcd", "done", kinds=("probe-rendezvous",))], ["probe-rendezvous"]) is None
    assert failed_proof([], ["probe-rendezvous"]) is None


# --- how did it end? ---

ALL = [act("node", "done", "done", "done"), act("leader", "done", "done")]
SOME = [act("node", "failed", "done", "failed"), act("leader", "done", "done")]
REFUSED = [act("node", "refused", "refused")]
WELL, ILL = look(State.HEALTHY), look(State.UNHEALTHY, "keep-alive-ended")


@pytest.mark.parametrize(
    ("acts", "after", "gone", "outcome"),
    [
        (ALL, WELL, True, Outcome.FIXED),
        (ALL, look(State.UNHEALTHY, "disk-full"), True, Outcome.PARTLY_FIXED),
        (ALL, look(State.UNHEALTHY, "disk-full", certainty=Certainty.LIKELY), True, Outcome.PARTLY_FIXED),
        (ALL, ILL, False, Outcome.NOT_FIXED),
        (ALL, WELL, False, Outcome.NOT_FIXED),  # a proof failed
        (SOME, WELL, True, Outcome.PARTLY_FIXED),
        (SOME, ILL, False, Outcome.NOT_FIXED),
        (REFUSED, WELL, True, Outcome.HEALTHY),
        (REFUSED, ILL, False, Outcome.REFUSED),
        ([], WELL, True, Outcome.HEALTHY),
        ([], ILL, False, Outcome.REFUSED),
        ([act("node", "failed", "failed")], WELL, True, Outcome.PARTLY_FIXED),
        ([act("node", "failed", "failed")], ILL, False, Outcome.NOT_FIXED),
        ([act("node", "refused", "done", "refused")], WELL, True, Outcome.PARTLY_FIXED),
        ([act("node", "refused", "done", "refused")], ILL, False, Outcome.NOT_FIXED),
    ],
)
def test_ended(acts: list[ActionRecord], after: Diagnosis, gone: bool, outcome: Outcome) -> None:
    assert ended_as(PLAN, acts, after, gone) is outcome
