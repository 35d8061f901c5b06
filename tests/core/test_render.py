"""Reports as a person reads them, word for word. `UPDATE_GOLDEN=1 pytest …` writes the files anew; read the diff."""

import json
import os
from pathlib import Path

import pytest

from runbooks.core.fixed import steps_left
from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.nightly import NightlyReport
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Step
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.render import do_now, render
from runbooks.core.render_nightly import render_nightly
from runbooks.core.report import Report
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.core.nights import TONIGHT
from tests.core.samples import DIAGNOSIS, PLAN, WELL, fixed, report
from tests.support.arguments import sample as arguments_of

GOLDEN = Path(__file__).parent / "golden"
KNOWLEDGE = Runbook(
    slug="zombie-gpu",
    title="Zombie GPU",
    summary="A GPU that is busy on paper and does nothing.",
    symptoms=("memory in use, nothing computed",),
    target="a node of the fleet",
    causes={
        "stopped-process": CauseKnowledge(
            title="Process stopped by a signal",
            explanation="It holds its GPU memory and does nothing until it gets SIGCONT.",
            decided_by=("state T in every look",),
            remedy="Find out who stopped it; continue or end it.",
            must_not=("Do not end it before asking whether a person is debugging it.",),
            references=("proc(5), field state",),
        )
    },
    limits={},
)
BLIND = Diagnosis(
    state=State.CANNOT_TELL,
    headline="the driver did not answer",
    causes=(
        Cause(
            slug="driver-hung",
            certainty=Certainty.POSSIBLE,
            subject="node-a",
            evidence=("nvidia-smi gave no answer in 20 s",),
            decides=("nvidia-smi -L, by hand, with a time-out",),
        ),
    ),
    unknowns=("GPUs of node-a: timed-out: left running, pid 812",),
    must_not=("Do not restart jobs: nothing shows that they are at fault.",),
)
REPORTS = {
    "waiting": report(),
    "fixed": fixed(),
    "healthy": report(
        outcome=Outcome.HEALTHY, headline="GPU 0 computes", diagnosis=WELL, approve_command="", connection=(), links={}
    ),
    "cannot-tell": report(outcome=Outcome.CANNOT_TELL, headline=BLIND.headline, diagnosis=BLIND, approve_command=""),
    "refused": report(
        outcome=Outcome.REFUSED,
        approve_command="",
        guards=("fleet lab: 2 of 2 nodes were changed within 3600 s",),
        refusals=(Refusal(code=RefusalCode.BUDGET_SPENT, why="fleet lab: 2 of 2 nodes were changed within 3600 s"),),
    ),
    "not-fixed": fixed().model_copy(
        update={"outcome": Outcome.NOT_FIXED, "headline": "pid 4242 is still there", "after": DIAGNOSIS}
    ),
}


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
def test_report_word_for_word(name: str) -> None:
    check(name, render(REPORTS[name], KNOWLEDGE))


def test_nightly_word_for_word() -> None:
    check("nightly", render_nightly(TONIGHT))


def test_markdown_comes_from_the_json_alone() -> None:
    for sample in REPORTS.values():
        again = Report.model_validate_json(sample.model_dump_json())
        assert render(again, KNOWLEDGE) == render(sample, KNOWLEDGE)
    assert render_nightly(NightlyReport.model_validate_json(TONIGHT.model_dump_json())) == render_nightly(TONIGHT)


def test_order_of_the_sections() -> None:
    text = render(fixed().model_copy(update={"outcome": Outcome.NOT_FIXED}), KNOWLEDGE)
    wanted = ["Do now", "What waiting costs", "What was seen", "Why", "Do NOT", "The plan", "What was done",
              "Before and after", "By hand", "Findings", "Timeline", "Raw readings"]  # fmt: skip
    found = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert [h for h in found if h in wanted] == wanted


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_says_what_to_do(outcome: Outcome) -> None:
    sample = report(outcome=outcome)
    assert outcome.row.report
    assert do_now(sample)
    assert "## Do now\n\n" in render(sample)


def test_a_report_without_anything_still_renders() -> None:
    bare = Diagnosis(state=State.CANNOT_TELL, headline="nothing was read")
    text = render(report(diagnosis=bare, evidence={}, timeline=(), connection=(), links={}, approve_command=""))
    assert "Nothing was changed." in text


def test_published_schema_is_that_of_the_code() -> None:
    from importlib import resources

    text = (resources.files("runbooks.core") / "report.schema.json").read_text(encoding="utf-8")
    wanted = json.dumps(Report.model_json_schema(), indent=1) + "\n"
    assert text == wanted, "report.schema.json is old: `make schema`, and if a field changed its meaning raise SCHEMA"


RESTART = arguments_of("restart-job")


def test_a_fix_that_leaves_something_likely_says_so_with_its_remedy() -> None:
    """Not green, not exit code 0; nothing of what is gone is asked for."""
    cause = Cause(slug="stopped-process", certainty=Certainty.LIKELY, subject="pid 977 on GPU 1", evidence=("state T once",))
    after = Diagnosis(state=State.UNHEALTHY, headline="GPU 1 is likely held", causes=(cause,))
    done = fixed()
    acts = (done.acts[0].model_copy(update={"steps": ("done",)}),)
    left = done.model_copy(update={"outcome": Outcome.PARTLY_FIXED, "after": after, "acts": acts})
    text = render(left, KNOWLEDGE)
    assert left.outcome.exit_code == 1
    assert left.outcome.row.state_type == "FAILED"
    assert "Deal with what is still wrong" in do_now(left)[0]
    assert "still there: Process stopped by a signal (pid 977 on GPU 1, likely): state T once" in text
    assert text.count(KNOWLEDGE.causes["stopped-process"].remedy) == 1
    assert "Not done:" not in text


def test_partly_fixed_shows_what_is_left_of_the_plan_and_closes_nothing() -> None:
    plan = PLAN.model_copy(
        update={"steps": (*PLAN.steps, Step(kind="restart-job", owner="node-a", args=RESTART, commands=("start-it",), effect="runs"))}
    )
    done = fixed()
    acts = (done.acts[0].model_copy(update={"outcome": "failed", "steps": ("done", "failed")}),)
    partly = done.model_copy(update={"outcome": Outcome.PARTLY_FIXED, "chosen": plan, "acts": acts})
    text = render(partly, KNOWLEDGE)
    assert "PARTLY FIXED" in text
    by_hand = text[text.index("Do the rest of the plan") :]
    assert "start-it" in by_hand
    assert [(n, s.kind, end) for n, s, end in steps_left(plan, acts)] == [(2, "restart-job", "failed")]
    assert steps_left(plan, ()) == ((1, plan.steps[0], "not begun"), (2, plan.steps[1], "not begun"))
    assert not Outcome.PARTLY_FIXED.row.closing
    assert Outcome.PARTLY_FIXED.row.severity is Outcome.NOT_FIXED.row.severity


def test_a_report_of_an_earlier_release_is_read() -> None:
    """It called a benign cause innocent, and history and comparisons read it."""
    cause = {"slug": "writing-checkpoint", "certainty": "confirmed", "subject": "pid 1", "evidence": ["it writes"]}
    assert Cause.model_validate(cause | {"innocent": True}).benign
    assert not Cause.model_validate(cause).benign
