"""Remedies in words: over every situation, no report asks for what a cause, a finding or a note of it speaks against."""

import copy
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from runbooks.core.forbidden import NAMED, ids_of
from runbooks.core.judgment import diagnosis, filled, tier
from runbooks.core.kinds import KINDS
from runbooks.core.knowledge import Runbook, load_runbook, runbook_slugs
from runbooks.core.remedies import NotDone
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from tests.runbooks.every import Situation, situations

NOT_CONTINUED = re.compile(r"\bpid (\d+) is not continued from here")
STOPPED = Cause(slug="stopped", certainty=Certainty.CONFIRMED, subject="pid 460 on GPU 0", evidence=("state T at all 13 looks",))
LETS_GO_ON = "`kill -CONT 460`"


@cache
def judged() -> tuple[tuple[Situation, Diagnosis], ...]:
    return tuple((case, case.judge()) for case in situations())


def asked_for(found: Diagnosis) -> str:
    """All lines in which a report asks for something."""
    return "\n".join((*found.do_now, *(f.action for f in found.findings), *found.by_hand))


def against(book: Runbook, found: Diagnosis, cause: Cause) -> set[str]:
    """Kinds that the report's other causes forbid for the subject of that cause. Written anew, not by the rule that it tries."""
    kinds: set[str] = set()
    for other in found.causes:
        known = book.causes[other.slug]
        if other.certainty is Certainty.RULED_OUT or other.slug == cause.slug:
            continue
        first = "*" in known.caused_by or cause.slug in known.caused_by
        kinds |= set(known.forbids)
        kinds |= set() if first or not ids_of(other.subject) & ids_of(cause.subject) else set(known.forbids_on_it)
    return kinds


def orders() -> Iterator[tuple[str, str, str, str]]:
    """(runbook, cause, kind, part of its remedy)."""
    for slug in runbook_slugs():
        for name, known in load_runbook(slug).causes.items():
            yield from ((slug, name, kind, part) for kind, part in known.orders.items())


def test_an_order_is_a_part_of_its_remedy_and_leaves_sentences() -> None:
    found = list(orders())
    assert len(found) >= 12
    for slug, name, kind, part in found:
        known = load_runbook(slug).causes[name]
        assert kind in KINDS, (slug, name)
        assert known.remedy.count(part) == 1, (slug, name, kind)
        left = known.remedy_without([kind])
        assert not left or (left[0].isupper() and left.endswith(".")), (slug, name, kind, left)


def test_no_report_asks_for_what_it_forbids() -> None:
    seen: Counter[str] = Counter()
    for case, found in judged():
        book = load_runbook(case.runbook)
        for cause in (c for c in found.causes if tier(c) == 0):
            known = book.causes[cause.slug]
            for kind in set(known.orders) & against(book, found, cause):
                part = known.orders[kind].strip()
                seen[case.runbook] += 1
                assert kind in cause.withheld, (case.runbook, case.title)
                mine = (*found.do_now, *(f"{f.issue}: {f.action}" for f in found.findings))
                wrong = [x for x in mine if cause.subject in x and (part in x or filled(part, cause) in x)]
                assert wrong == [], (case.runbook, case.title)
    assert seen["zombie-gpu"] >= 1, seen


def test_what_is_not_continued_is_not_to_be_continued_by_any_line() -> None:
    """Whatever part of the report would say so: what to do, what to type, what decides it, what was seen."""
    seen = 0
    for case, found in judged():
        pids = {m[1] for line in found.do_now for m in NOT_CONTINUED.finditer(line)}
        seen += len(pids)
        seen_of = (x for c in found.causes for x in (*c.decides, *c.evidence))
        lines = (*found.do_now, *found.by_hand, *(f.action for f in found.findings), *seen_of)
        wrong = [x for x in lines for pid in pids if re.search(rf"kill -(?:CONT|18) {pid}\b", x)]
        assert wrong == [], (case.runbook, case.title)
    assert seen >= 5, "situations in which somebody is not to be continued"


def told(*notes: str, causes: tuple[Cause, ...] = (), findings: tuple[Finding, ...] = ()) -> Diagnosis:
    return diagnosis("zombie-gpu", (STOPPED, *causes), state=State.UNHEALTHY, headline="h", after=notes, findings=findings)


@pytest.mark.parametrize(
    ("note", "stays"),
    [
        ("pid 460 is left alone", True),
        (NotDone("pid 460 is not continued from here: a newer run", "continue-processes", [460]), False),
        (NotDone("pid 461 is not continued from here: a newer run", "continue-processes", [461]), True),
        (NotDone("nothing is continued here", "continue-processes"), False),
        (NotDone("pid 460 is not ended from here: it is of a container", "terminate-processes", [460]), True),
    ],
)
def test_a_note_takes_its_order_out_of_the_remedy(note: str, stays: bool) -> None:
    found = told(note)
    assert (LETS_GO_ON in asked_for(found)) is stays, found.do_now
    assert any("Ask who stopped it." in line for line in found.do_now)
    assert note in found.do_now


def test_another_cause_and_a_finding_take_it_out_as_well() -> None:
    other = Cause(slug="debugged", certainty=Certainty.CONFIRMED, subject="pid 460 on GPU 0", evidence=("gdb",), benign=True)
    assert LETS_GO_ON not in asked_for(told(causes=(other,)))
    elsewhere = other.model_copy(update={"subject": "pid 9 on GPU 0"})
    assert LETS_GO_ON in asked_for(told(causes=(elsewhere,)))
    gone = Cause(slug="gpu-off-the-bus", certainty=Certainty.RULED_OUT, subject="GPU 3", evidence=("as read",))
    assert LETS_GO_ON in asked_for(told(causes=(gone,)))
    said = Finding(priority="HIGH", category="zombie-gpu/gpu-off-the-bus", issue="its log says so", action="look")
    assert LETS_GO_ON not in asked_for(told(findings=(said,)))


def test_the_remedy_of_a_finding_loses_it_as_well() -> None:
    book = load_runbook("zombie-gpu")
    mine = Finding(priority="HIGH", category="GPU", issue="i", action=filled(book.causes["stopped"].remedy, STOPPED))
    note = NotDone("pid 460 is not continued from here: a newer run", "continue-processes", [460])
    (kept,) = told(note, findings=(mine,)).findings
    assert LETS_GO_ON not in kept.action
    assert kept.action.startswith("Ask who stopped it.")


def test_what_is_withheld_stays_with_its_cause() -> None:
    note = NotDone("pid 460 is not continued from here: a newer run", "continue-processes", [460])
    found = told(note)
    (cause,) = (c for c in found.causes if c.slug == "stopped")
    assert cause.withheld == ("continue-processes",)
    assert Diagnosis.model_validate_json(found.model_dump_json()).causes == found.causes
    assert copy.deepcopy(note) == note
    assert NAMED.search(cause.subject)
