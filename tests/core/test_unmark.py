"""A page as plain text: what was escaped stands there as it was read, commands as they are pasted."""

from runbooks.core.clean import one_line
from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.render import render
from runbooks.core.show import Markdown, md
from runbooks.core.unmark import INDENT, plain, without_folds
from tests.core.samples import DIAGNOSIS, report
from tests.runbooks.every import situations

FOREIGN = ("a_b __x__ *y* **z**", "\\`", "# no heading", "1. no list",
           "[x](http://evil.example)", "<b>&amp;", "| a | b |", "~~x~~ $y$", "+ -")


def test_every_sentence_is_as_it_was_before_it_was_escaped() -> None:
    judged = [s.judge() for s in situations()]
    said = {t for d in judged for t in (d.headline, *d.do_now, *d.must_not, *d.by_hand, *d.unknowns)}
    assert len(said) > 700
    for text in (*sorted(said), *FOREIGN):
        shown = plain(Markdown(f"x {md(text)}")).rstrip("\n")
        assert shown.replace("`", "") == f"x {one_line(text)}".rstrip().replace("`", "")


def test_commands_can_be_pasted_from_a_terminal() -> None:
    for case in situations():
        found = case.judge()
        if found.plans:
            text = plain(approval_text(case.runbook, "n", found, found.plans, ("approve mode",), width=0))
            for plan in found.plans:
                for step in plan.steps:
                    assert "\n".join(f"{INDENT}{c}" for c in step.commands) in text, case.title


def test_the_question_says_what_was_seen_why_and_what_not() -> None:
    risks = {"terminate-processes": "disruptive"}
    text = plain(approval_text("Zombie GPU", "node-a", DIAGNOSIS, DIAGNOSIS.plans, ("approve mode",), risks, width=0))
    for words in (DIAGNOSIS.headline, DIAGNOSIS.symptom, "approve mode", "Effect:", "Lost:", "risk: disruptive", *DIAGNOSIS.waiting_costs):
        assert words in text
    assert "**" not in text
    assert "```" not in text


def test_a_report_without_signs_tags_and_raw_readings() -> None:
    page = render(report(), load_runbook("zombie-gpu"))
    whole, short = plain(page), plain(without_folds(page))
    assert "<details>" not in whole
    assert "**" not in whole
    assert "pid, used_gpu_memory [MiB]" in whole
    assert "pid, used_gpu_memory [MiB]" not in short
    assert "Waiting for your decision" in short
