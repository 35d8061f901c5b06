"""The first words of a report, as the terminal shows them: with and without a server."""

import pytest

from runbooks.core.outcome import Outcome
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.render import do_now, must_not, render
from runbooks.core.show import Markdown
from runbooks.core.summary import CAUSES, first_words
from runbooks.core.unmark import plain
from runbooks.core.verdict import Cause, Certainty
from tests.core.samples import DIAGNOSIS, WELL, fixed, report
from tests.core.test_render import KNOWLEDGE


def shown(text: Markdown) -> list[str]:
    return [line.strip(" -") for line in plain(text).splitlines() if line.strip(" -")]


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.WAITING])
def test_the_order_and_the_words_are_those_of_the_report(outcome: Outcome) -> None:
    found = report(outcome=outcome, approve_command="")
    lines = shown(first_words(found, KNOWLEDGE))
    assert lines[0].startswith(found.headline)
    heads = [line for line in lines if line in ("Evidence", "Do NOT", "Do now")]
    assert heads == [h for h in ("Evidence", "Do NOT", "Do now") if h in lines]
    assert "Evidence" in heads
    whole = shown(render(found, KNOWLEDGE))
    for line in (*must_not(found, KNOWLEDGE.causes), *map(str, do_now(found))):
        if line != "Nothing.":
            assert line in lines
            assert line in whole
    for cause in found.diagnosis.wrong:
        assert set(cause.evidence[:2]) <= set(lines)


def test_what_is_well_needs_one_line() -> None:
    calm = WELL.model_copy(update={"symptom": "", "must_not": ()})
    lines = shown(first_words(report(outcome=Outcome.HEALTHY, headline="GPU 0 is free", diagnosis=calm, approve_command="")))
    assert lines == ["GPU 0 is free"]


def test_after_an_action_the_evidence_is_that_of_now() -> None:
    still = fixed().model_copy(update={"outcome": Outcome.NOT_FIXED, "after": WELL.model_copy(update={"symptom": "seen after it"})})
    assert "seen after it" in shown(first_words(still, KNOWLEDGE))


def test_many_kinds_are_counted() -> None:
    kinds = tuple(Cause(slug=f"c{i}", certainty=Certainty.LIKELY, subject=f"pid {i}", evidence=("e",)) for i in range(CAUSES + 2))
    lines = shown(first_words(report(outcome=Outcome.UNHEALTHY, diagnosis=DIAGNOSIS.model_copy(update={"causes": kinds}))))
    assert "… and 2 more kinds: see the report" in lines
    assert f"c{CAUSES} (likely): pid {CAUSES}" not in lines


def test_a_refusal_is_named_with_its_code() -> None:
    no = Refusal(code=RefusalCode.FROZEN, why="frozen: change window")
    lines = shown(first_words(report(outcome=Outcome.REFUSED, guards=(no.why,), refusals=(no,), approve_command="")))
    assert "Held back (frozen): frozen: change window" in lines
