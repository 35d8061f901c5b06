"""Fixed means: what the plan was for is gone, and so is what would show that it did not help."""

import pytest

from flows.engine.carry_out import _gone
from runbooks.core.plan import Plan
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State

PLAN = Plan(name="recreate", steps=(), for_causes=("keep-alive-ended",), also_gone=("raylet-gone",))


@pytest.mark.parametrize(
    ("state", "left", "fixed"),
    [
        (State.HEALTHY, None, True),
        (State.UNHEALTHY, "keep-alive-ended", False),
        (State.UNHEALTHY, "raylet-gone", False),
        (State.UNHEALTHY, "disk-full", True),
        (State.CANNOT_TELL, None, False),
    ],
)
def test_fixed(state: State, left: str | None, fixed: bool) -> None:
    causes = (Cause(slug=left, certainty=Certainty.CONFIRMED, subject="s", evidence=("e",)),) if left else ()
    after = Diagnosis(state=state, headline="h", causes=causes, must_not=("nothing",))
    assert _gone(PLAN, after) == fixed
