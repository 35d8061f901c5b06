"""Every kind of action has a test that runs its printed commands on the real fault."""

import re
from pathlib import Path

from flows.engine.actions import ACTIONS
from runbooks.core.plan import Step
from tests.runbooks.every import situations
from tests.support.printed import RUN, STAND_IN

ROOT = Path(__file__).parents[1]
BLANKS = re.compile(r"…|\bKEY\b|REVISION|<[a-z-]+>|^\s*#|\.\.\.")  # what a person would have to fill in, or only reads

MADE_UP = re.compile(r"situations\(|from_outside\(|asks_for_a_reset\(")


def test_every_kind_of_action_is_in_the_table() -> None:
    assert set(RUN) == {k for k in ACTIONS if not k.startswith("toy-")}


def test_the_tests_of_the_table_are_there() -> None:
    for test in RUN.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_what_stands_for_a_real_fault_has_a_reason() -> None:
    """A test that judges a written situation, or a state that it gives the lab's GPU, runs on no real fault: it is named, with why."""
    assert set(STAND_IN) < set(RUN)
    assert all(len(why) > 60 for why in STAND_IN.values())
    texts = {kind: _body(test) for kind, test in RUN.items()}
    assert {kind for kind, text in texts.items() if MADE_UP.search(text)} == set(STAND_IN)


def _body(test: str) -> str:
    path, _, name = test.partition("::")
    return re.split(r"\n(?=def |class |@)", (ROOT / path).read_text(encoding="utf-8").partition(f"def {name}(")[2])[0]


def steps() -> list[Step]:
    """Of every plan of every situation."""
    return [s for case in situations() for p in case.judge().plans for s in p.steps]


def test_nothing_is_left_to_fill_in() -> None:
    for step in steps():
        assert step.commands, step.kind
        for command in step.commands:
            assert not BLANKS.search(command), (step.kind, command)
