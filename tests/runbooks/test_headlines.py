"""A headline is what a notification shows: short, in words, and nothing that it leaves out is lost."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from runbooks.core import headline as headlines
from runbooks.core.headline import LONGEST, headlined, of_cause, short
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.runbooks.every import Situation, situations

WORD = re.compile(r"\w[\w./@:-]*\w|\d")
COMMAND = "python3 /srv/app/train.py --config /srv/app/configs/" + "x" * 2000
MARK = "x" * 50


def test_a_headline_fits_into_a_notification() -> None:
    """That of every runbook in every situation."""
    found = {f"{s.runbook}: {s.title}": s.judge().headline for s in situations()}
    assert len(found) > 1000
    assert {where: line for where, line in found.items() if len(line) > LONGEST} == {}


def test_a_headline_names_no_cause_by_its_slug() -> None:
    told = []
    for s in situations():
        causes = load_runbook(s.runbook).causes
        titles = " ".join(c.title for c in causes.values())
        words = set(re.findall(r"(?<![\w./-])[a-z]+(?:-[a-z]+)+(?![\w/-])", s.judge().headline))
        told += [f"{s.runbook}: {s.title}: {slug}" for slug in words & causes.keys() if slug not in titles]
    assert told == []


def test_what_a_headline_leaves_out_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word of it, as it would be without a limit."""
    cut = [(s, s.judge()) for s in situations()]
    monkeypatch.setattr(headlines, "short", lambda text, _room=0: text.strip())
    lost, longer = [], 0
    for s, found in cut:
        whole = s.judge(s.evidence).headline
        if whole == found.headline:
            continue
        longer += 1
        titles = [c.title for c in load_runbook(s.runbook).causes.values()]
        report = " ".join((found.headline, *titles, *shown(found)))
        lost += [f"{s.runbook}: {s.title}: {word}: {whole}" for word in WORD.findall(whole) if word not in report]
    assert lost == []
    assert longer > 20


def shown(found: Diagnosis) -> Iterator[str]:
    """What a report shows of a judgment besides its headline."""
    yield from (found.symptom, *found.unknowns, *found.do_now, *(f.issue for f in found.findings))
    yield from (text for c in found.causes for text in (c.subject, *c.evidence))


def test_a_text_is_cut_between_its_clauses() -> None:
    text = "one and two (three, four), five; six: seven eight"
    assert short(text, len(text)) == text
    assert short(text, 40) == "one and two (three, four), five…"
    assert short(text, 30) == "one and two (three, four)…"
    assert short(f"at 10:02: {text}", 18) == "at 10:02: one and…", "a colon announces what follows: no cut behind it"
    assert short(text, 20) == "one and two…", "no bracket stays open"
    assert [len(short("x" * 500, n)) for n in (20, LONGEST)] == [20, LONGEST]


def test_a_headline_of_a_cause_names_the_fault_the_thing_and_the_number_once() -> None:
    book = load_runbook("zombie-gpu")
    title = book.causes["stopped"].title
    one = cause("pid 7 (train.py) on GPU 0", "state T for 90 s")
    assert of_cause(book, one) == f"{title}: pid 7 (train.py) on GPU 0: state T for 90 s"
    assert of_cause(book, one, "node-a", hedge=" (likely)", more=2) == (
        f"node-a: {title} (likely): pid 7 (train.py) on GPU 0: state T for 90 s (and 2 more)"
    )
    assert of_cause(book, cause("pid 7", "pid 7 is in state T")) == f"{title}: pid 7 is in state T"
    for place in ("", "node-a", "n" * 500):
        line = of_cause(book, cause("pid 7", "state T; " * 90), place, more=3)
        assert len(line) <= LONGEST
        assert line.endswith("… (and 3 more)")


def test_what_the_report_does_not_say_elsewhere_is_added_to_what_was_seen() -> None:
    line = f"{'pid 7 is stopped, ' * 12}and GPU 3 is idle"
    found = headlined(Diagnosis(state=State.UNHEALTHY, headline="", symptom="0 % busy"), line)
    assert len(found.headline) <= LONGEST
    assert found.symptom == f"0 % busy; {line}"
    told = headlined(Diagnosis(state=State.UNHEALTHY, headline="", causes=(cause("pid 7", line),)), line)
    assert (told.headline, told.symptom) == (found.headline, "")


def cause(subject: str, *evidence: str) -> Cause:
    return Cause(slug="stopped", certainty=Certainty.CONFIRMED, subject=subject, evidence=evidence)


def with_long_commands(s: Situation) -> Any:
    """The same evidence, each command line of a process as long as real ones are; None where it holds none."""
    found = s.evidence.model_dump()
    return type(s.evidence).model_validate(found) if _lengthen(found) else None


def _lengthen(value: Any) -> bool:
    changed = False
    if isinstance(value, dict):
        for name, held in value.items():
            if name in ("command", "subject") and isinstance(held, str) and (name == "command" or held.startswith("pid ")):
                value[name] = COMMAND if name == "command" else f"{held.partition(' (')[0]} ({COMMAND})"
                changed = True
            elif name != "source":
                changed |= _lengthen(held)
    elif isinstance(value, (list, tuple)):
        for held in value:
            changed |= _lengthen(held)
    return changed


def test_no_command_line_gets_into_a_headline() -> None:
    told, tried = [], set()
    for s in situations():
        changed = with_long_commands(s)
        if changed is None:
            continue
        tried.add(s.runbook)
        if MARK in s.judge(changed).headline:
            told.append(f"{s.runbook}: {s.title}")
    assert told == []
    assert {"host-limits", "zombie-gpu"} <= tried
