"""One judgment for every runbook: causes in the order of runbook.yaml, remedies as what a person does now, unknowns in one form."""

import ast
from pathlib import Path

import pytest

from runbooks.container.diagnose import EVENTS, LOOPS
from runbooks.core.judgment import credible, ordered, remedy, state_of, tier, to_do
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.reading import UnknownReason
from runbooks.core.unread import covered, unread
from runbooks.core.verdict import Cause, Certainty, State
from runbooks.core.worded import titled
from runbooks.gpu.verdicts import BESIDE, UNOWNED
from tests.runbooks.every import Situation, situations

OWN_COMMANDS = "distributed-setup"  # its remedies are command lines made for the launch


def of(slug: str) -> list[Situation]:
    return [case for case in situations() if case.runbook == slug]


@pytest.mark.parametrize("slug", runbook_slugs())
def test_every_report_is_made_in_one_way(slug: str) -> None:
    book = load_runbook(slug)
    place = {name: i for i, name in enumerate(book.causes)}
    titles = {name: known.title for name, known in book.causes.items()}
    for case in of(slug):
        found = case.judge()
        late = EVENTS if slug == "container-death" else ()  # an event behind what was read of this very end
        late = (*late, *LOOPS) if any(c.slug == "bad-command" for c in found.causes) else late  # it leads to the loop
        late = (*late, BESIDE) if {c.slug for c in credible(found.causes)} & set(UNOWNED) else late  # true, and not why
        order = [(tier(c), place[c.slug]) for c in found.causes if c.slug not in late]
        assert order == sorted(order), case.title
        sick = credible(found.causes)
        assert found.do_now or not sick, case.title
        assert "see the runbook" not in found.model_dump_json().lower(), case.title
        for cause in sick if slug != OWN_COMMANDS else ():
            wanted = titled(titles, remedy(slug, cause))
            assert any(wanted in line for line in found.do_now), (case.title, cause.slug, found.do_now)
        lost = unread(case.evidence)
        blind = {x.path for x in lost}
        gaps = [x for x in lost if x.reading.reason is not UnknownReason.NOT_ASKED or not covered(book, x, blind)]
        lines = [u for u in found.unknowns for x in gaps if u.startswith(titled(titles, f"{x.label}: {x.why}"))]
        wanted_lines = {f"{x.label}: {x.why}" for x in gaps}
        assert found.state is State.NOT_APPLICABLE or len(set(lines)) >= len(wanted_lines), (case.title, found.unknowns)


def _cause(slug: str, certainty: Certainty = Certainty.CONFIRMED, subject: str = "pid 7 on GPU 0", **more: object) -> Cause:
    return Cause.model_validate({"slug": slug, "certainty": certainty, "subject": subject, "evidence": ("as read",), **more})


def test_credible_faults_come_first_and_keep_the_order_of_the_file() -> None:
    causes = [
        _cause("stopped", Certainty.RULED_OUT), _cause("shared-gpu", benign=True), _cause("gpu-off-the-bus", Certainty.POSSIBLE),
        _cause("idle-process"), _cause("stopped", Certainty.LIKELY),
    ]  # fmt: skip
    assert [c.slug for c in ordered("zombie-gpu", causes)] == ["stopped", "idle-process", "gpu-off-the-bus", "shared-gpu", "stopped"]
    assert [c.slug for c in ordered("zombie-gpu", causes, late={"stopped"})][:2] == ["idle-process", "stopped"]


def test_a_remedy_names_what_the_cause_is_about_and_is_told_once() -> None:
    one, other = _cause("stopped"), _cause("stopped", subject="pid 8 on GPU 1")
    assert "`kill -CONT 7`" in remedy("zombie-gpu", one)
    assert [line.partition(":")[0] for line in to_do("zombie-gpu", [one, other])] == ["pid 7 on GPU 0", "pid 8 on GPU 1"]
    alike = [_cause("idle-process", subject=f"pid {n}") for n in range(5)]
    (line,) = to_do("zombie-gpu", alike)
    assert line.startswith("pid 0, pid 1, pid 2 and 2 more: Take its stack")


def test_what_is_not_confirmed_says_what_decides_it() -> None:
    maybe = _cause("stopped", Certainty.POSSIBLE, decides=("who stopped it",))
    assert to_do("zombie-gpu", [maybe]) == ("pid 7 on GPU 0: find out first: who stopped it",)
    assert [line.split(": ")[1] for line in to_do("zombie-gpu", [_cause("stopped", Certainty.POSSIBLE)])] == ["find out first"]
    likely = to_do("zombie-gpu", [_cause("stopped", Certainty.LIKELY, decides=("who stopped it",))])
    assert len(likely) == 2
    assert likely[0].endswith("find out first: who stopped it")


def test_states() -> None:
    assert state_of([]) is State.HEALTHY
    assert state_of([], blind="a log") is State.CANNOT_TELL
    assert state_of([_cause("stopped", Certainty.POSSIBLE)]) is State.CANNOT_TELL
    assert state_of([_cause("shared-gpu", benign=True), _cause("stopped", Certainty.RULED_OUT)]) is State.HEALTHY
    assert state_of([_cause("stopped", Certainty.LIKELY)], blind=True) is State.UNHEALTHY


def judged_by_hand(text: str) -> list[int]:
    """Lines that make a Diagnosis with causes or plans by themselves, or with fields that can't be seen."""
    calls = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] == "Diagnosis")
    return [n.lineno for n in calls if n.args or {k.arg for k in n.keywords} & {"causes", "plans", "knowingly", None}]


def test_one_place_makes_a_diagnosis_of_causes() -> None:
    """Elsewhere only what has none is made: there is nothing to judge, or nothing was read."""
    files = [p for room in ("runbooks", "tasks", "flows", "deployments") for p in Path(room).rglob("*.py")]
    found = {str(p): lines for p in files if (lines := judged_by_hand(p.read_text(encoding="utf-8")))}
    assert list(found) == ["runbooks/core/judgment.py"], found


def test_a_second_maker_is_seen() -> None:
    assert judged_by_hand("Diagnosis(state=a, headline=b)\nverdict.Diagnosis(state=a, headline=b, causes=c)\nDiagnosis(**x)") == [2, 3]
