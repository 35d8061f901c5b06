"""A report with many causes of one kind: what holds for the kind stands in it once, and every subject with its own evidence."""

import re

import pytest

from runbooks.core.distinct import names_of
from runbooks.core.judgment import general, to_do
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.render import render
from runbooks.core.report import Report
from runbooks.core.show import Markdown
from runbooks.core.unmark import plain
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.core.samples import report
from tests.runbooks.gpu.build import evidence, judge

BOOK = load_runbook("zombie-gpu")
STOPPED = BOOK.causes["stopped"]


def judged(count: int) -> Report:
    """So many GPUs, each held by a stopped process of its own."""
    gpus = [{"use": [0, 0, 0, 0], "holders": {400 + i: 8.5}} for i in range(count)]
    processes = [{"pid": 400 + i, "state": "T", "job": "train", "age_s": 13} for i in range(count)]
    d = judge(evidence({"gpus": gpus, "processes": processes, "jobs": [{}]}))
    return report(outcome=Outcome.UNHEALTHY, headline=d.headline, diagnosis=d, approve_command="", evidence={})


def part(page: Markdown, title: str) -> str:
    """A section of a page, without Markdown's signs."""
    return plain(page).partition(f"\n{title}\n")[2].partition("\nDo NOT\n")[0].partition("\nWhat waiting costs\n")[0]


def test_fifteen_causes_of_one_kind_are_told_once() -> None:
    many = judged(15)
    page = render(many, BOOK)
    why, now = part(page, "Why"), part(page, "Do now")
    for words in (STOPPED.title, STOPPED.explanation, STOPPED.remedy.replace("`", ""), "What would decide it:", "state T at all 2 looks"):
        assert why.replace("`", "").count(words.strip()) == 1, words
    for i in range(15):
        assert re.search(rf"- pid {400 + i} on GPU {i}\n\s+- it holds 8.5 GiB of GPU {i}'s memory\n", why), why
    assert "(15 confirmed)" in why
    assert re.findall(r"-p PID\b", why), "the command that decides it, for any of them"
    head = next(line for line in page.splitlines() if line.startswith("**"))
    assert (head.count(STOPPED.title), head.count("(and 14 more)"), "cases" in head) == (1, 1, False)
    assert len(re.findall(r"\bpid \d+", now)) == 3
    assert "and 12 more: Ask who stopped it" in now
    assert len(page.partition("## Findings")[2].partition("## ")[0].strip().splitlines()) == 3
    assert [c.subject for c in many.diagnosis.causes] == [f"pid {400 + i} on GPU {i}" for i in range(15)], "the JSON has each"


def test_one_cause_is_told_as_ever_and_a_few_with_their_own_commands() -> None:
    page = render(judged(1), BOOK)
    assert "case" not in next(line for line in page.splitlines() if line.startswith("**"))
    assert "kill -CONT 400" in part(page, "Why")
    few = judged(3).diagnosis
    assert [f"pid {400 + i} on GPU {i}: Ask who stopped it. `kill -CONT {400 + i}`" in " ".join(few.do_now) for i in range(3)] == [True] * 3


def test_a_remedy_is_told_without_what_the_report_speaks_against() -> None:
    whole = judged(1)
    cut = tuple(c.model_copy(update={"withheld": ("continue-processes",)}) for c in whole.diagnosis.causes)
    page = render(whole.model_copy(update={"diagnosis": whole.diagnosis.model_copy(update={"causes": cut})}), BOOK)
    assert "Remedy: Ask who stopped it. `kill -CONT 400` lets it continue" in plain(render(whole, BOOK)).replace("\\", "")
    assert "Remedy: Ask who stopped it. Ending it loses what it has not saved" in plain(page).replace("\\", "")


def cause(subject: str, certainty: Certainty = Certainty.CONFIRMED, *proof: str, **more: object) -> Cause:
    fields = {"slug": "stopped", "certainty": certainty, "subject": subject, "evidence": proof or (f"seen of {subject}",)}
    return Cause.model_validate(fields | more)


def shown(*causes: Cause, **more: object) -> str:
    d = Diagnosis(state=State.UNHEALTHY, headline="it is so", causes=causes)
    return plain(render(report(outcome=Outcome.UNHEALTHY, headline="it is so", diagnosis=d, approve_command="", **more), BOOK))


def test_a_title_that_the_headline_has_is_not_repeated_in_it() -> None:
    many = judged(15)

    def head(line: str) -> str:
        return render(many.model_copy(update={"headline": line}), BOOK).splitlines()[2]

    assert head(f"{STOPPED.title}: pid 400").count(STOPPED.title) == 1
    assert "; 15 such cases" in head(f"{STOPPED.title}: pid 400")
    assert f"; 15 cases of “{STOPPED.title}”" in head("GPU 0 is held")


def test_names_with_commas_are_kept_apart() -> None:
    assert names_of(["a, b", "c", "d", "e"]) == "a, b; c; d and 1 more"
    assert names_of(["a", "c, d"]) == "a; c, d"
    assert names_of(["a", "c"]) == "a, c"


def test_each_subject_says_how_sure_it_is_where_they_differ() -> None:
    out = Certainty.RULED_OUT
    page = shown(cause("pid 1"), cause("pid 2", Certainty.POSSIBLE), cause("pid 3", out), cause("pid 4", out))
    assert "(1 confirmed, 1 possible)" in page
    assert re.search(r"- pid 1 \(confirmed\)\n\s+- seen of pid 1\n\s*- pid 2 \(possible\)\n", page), page
    assert "Remedy, if this is the cause" in page
    assert page.partition("Ruled out:")[2].count(STOPPED.title) == 1
    assert re.search(r"- pid 3: seen of pid 3\n\s+- pid 4: seen of pid 4\n", page)


def test_innocent_ones_stand_apart_and_are_no_cases() -> None:
    page = shown(cause("pid 1"), cause("pid 2", benign=True), cause("pid 3", benign=True))
    assert page.count(f"{STOPPED.title} (benign: leave it alone)") == 1
    assert f"{STOPPED.title} (confirmed)" in page
    assert "cases of" not in page


def test_no_proof_is_lost_when_another_kind_told_it() -> None:
    sure, known = Certainty.CONFIRMED, "the driver hangs"
    other = cause("node-a", sure, known, slug="driver-hung")
    page = shown(other, cause("pid 1", sure, known, "own 1"), cause("pid 2", sure, known, "own 2"))
    assert page.count("the driver hangs") == 1
    assert re.search(r"- pid 1\n\s+- own 1\n\s*- pid 2\n\s+- own 2\n", page), page


@pytest.mark.parametrize(
    ("text", "subject", "wanted"),
    [
        ("who: `ps -p 400 -o pid`, 400 s", "pid 400 on GPU 0", "who: `ps -p PID -o pid`, 400 s"),
        ("`cat /proc/400/stat 4000 1400`", "pid 400", "`cat /proc/PID/stat 4000 1400`"),
        ("`kill 1; kill 2`", "pid 1 and pid 2", "`kill 1; kill 2`"),
        ("`df -h`", "/data", "`df -h`"),
    ],
)
def test_ids_are_taken_out_of_commands_alone(text: str, subject: str, wanted: str) -> None:
    assert general(text, cause(subject)) == wanted


def test_no_line_is_lost_where_one_subject_has_several() -> None:
    sure = [cause(f"pid {i}", Certainty.LIKELY, decides=(f"`a {i}`", f"`b {i}`", "`c`")) for i in range(5)]
    lines = to_do("zombie-gpu", sure)
    assert [x.partition("more: ")[2] for x in lines][:3] == [f"find out first: `{x}`" for x in ("a PID", "b PID", "c")]
    assert len(lines) == 4
    own = to_do("zombie-gpu", sure, lambda c: f"own of {c.subject}")
    assert [x for x in own if x.startswith("own")] == [f"own of pid {i}" for i in range(5)]


def test_many_plans_are_not_listed_among_the_actions() -> None:
    from runbooks.core.worded import CHOOSE, worded
    from tests.core.samples import PLAN

    plans = tuple(PLAN.model_copy(update={"name": f"end it: w{i}"}) for i in range(15))
    d = Diagnosis(state=State.UNHEALTHY, headline="x", do_now=(f"{CHOOSE}all", "ask"), plans=plans)
    assert worded(BOOK, d).do_now == ("choose a plan: end it: w0, end it: w1, end it: w2 and 12 more", "ask")
