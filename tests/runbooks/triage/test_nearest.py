"""Where no signature fits: a told trouble is never "nothing found wrong", and what is near to it is a place to look, not a cause."""

import random

import pytest

from runbooks.triage.load import library
from runbooks.triage.nearest import LINES, MOST, nearest
from runbooks.triage.render import render
from runbooks.triage.text import judge_lines
from tests.support.cost import cpu_seconds

TOLD = [
    (
        "A halted pod will not come up again: its own machine has no card free, the provider has that type in stock.",
        "host-gpus-taken",
    ),
    (
        "Of several small jobs on the box, the end of one takes all others down with it, they share one endpoint.",
        "store-shared",
    ),
    (
        "The card idles at two per cent because games are simulated on the processor, is that wrong by design?",
        "cpu-bound-by-design",
    ),
    (
        "One more download of the data set whose last record was cut off, the length is not that of the source.",
        "cut-off",
    ),
]


@pytest.mark.parametrize(("text", "slug"), TOLD)
def test_told_trouble_is_answered_with_places_to_look(text: str, slug: str) -> None:
    outcome = judge_lines(text)
    named = [c.slug for c in (*outcome.causes, *outcome.inconclusive)]
    assert outcome.verdict != "nothing"
    assert slug in (*named, *(n.slug for n in outcome.nearest))


def test_they_are_no_causes_and_advise_nothing() -> None:
    outcome = judge_lines(TOLD[0][0])
    assert (outcome.verdict, outcome.exit_code, outcome.causes) == ("not-enough", 3, ())
    assert "None of these has evidence" in render(outcome)
    assert " do: " not in render(outcome)


@pytest.mark.parametrize(
    "text",
    [
        "Training runs fine on all eight cards, I only wonder how to choose a larger batch for the next run of it.",
        "The upgrade of the driver went well and nothing failed, all nodes are back and none of the jobs was lost.",
        "Please review the change that raises the number of workers in the loader from four to eight before Friday.",
        "trainer up 3 hours (healthy)\nmetrics up 3 hours",
        "step 100 loss 2.31\nstep 200 loss 2.11\nSaved checkpoint to /ckpt/step_200 in 12.1 s, no errors",
        "",
    ],
)
def test_what_is_well_stays_nothing(text: str) -> None:
    assert (judge_lines(text).verdict, judge_lines(text).nearest) == ("nothing", ())


@pytest.mark.parametrize(
    "text",
    [
        "The coffee machine is broken again and its water stays too cold for anybody to drink.",
        "Our office printer refuses to print and the paper is stuck in tray two since the morning.",
        "Why is my SQL query so slow? The join takes for ever and never returns.",
    ],
)
def test_a_trouble_of_another_world_is_near_to_nothing_and_not_well(text: str) -> None:
    outcome = judge_lines(text)
    assert (outcome.verdict, outcome.nearest) == ("not-enough", ())
    assert "What would decide: " in render(outcome)


def test_a_text_with_a_cause_needs_no_places_to_look() -> None:
    assert judge_lines("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.").nearest == ()


@pytest.mark.parametrize("text", [(TOLD[2][0] + "\n") * (LINES + 1), TOLD[2][0] + " word" * MOST])
def test_a_long_text_is_a_log_and_not_told(text: str) -> None:
    assert judge_lines(text).nearest == ()


def test_of_a_long_log_the_lines_that_fit_no_cause_are_compared() -> None:
    log = [f"step {n} loss 2.{n}" for n in range(500)]
    log.insert(
        250,
        "resume of the stopped pod refused: its own machine lets all GPUs to others now; elsewhere the type is in stock",
    )
    assert "host-gpus-taken" in [n.slug for n in judge_lines(log).nearest]


def test_a_part_of_the_knowledge_has_no_places_to_look() -> None:
    assert judge_lines(TOLD[0][0], only=("container-death",)).nearest == ()


def test_the_order_is_the_same_every_time_and_words_by_the_thousand_do_no_harm() -> None:
    words = [w for k in library().causes for w in k.cause.title.lower().split()]
    text = " ".join(random.Random(7).choices(words, k=1000))[:MOST]
    assert len({tuple(k.slug for k in nearest(text, library())) for _ in range(5)}) == 1
    assert cpu_seconds(lambda: nearest(text, library()), 1) < 1


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("The nodes of rack nine are up since Monday and the new people want to know about their names.", True),
        ("All is well again, every node is up and the training runs fine.", False),
        ("step 100 loss 2.31\nstep 200 loss 2.11", False),
    ],
)
def test_who_tells_and_shows_nothing_is_asked_for_what_can_be_judged(text: str, asked: bool) -> None:
    outcome = judge_lines(text)
    assert outcome.verdict == "nothing"
    assert ("told, not shown" in render(outcome)) is asked
