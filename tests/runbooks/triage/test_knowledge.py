"""Every signature matches its example and not its counter-example; every cause forbids something."""

import re
from collections.abc import Iterator

import pytest

from runbooks.core.knowledge import Signature
from runbooks.triage.block import Block
from runbooks.triage.expr import parse
from runbooks.triage.facts import from_text
from runbooks.triage.literals import AND, fold, required
from runbooks.triage.load import Rule, library, signature_patterns
from runbooks.triage.normal import normal
from runbooks.triage.probe import Matcher
from runbooks.triage.reading import Reading
from runbooks.triage.scan import Scanner
from runbooks.triage.show import checks_first
from runbooks.triage.sieve import Lines, Sieve

LIBRARY = library()
FAMILIES = sorted({k.family for k in LIBRARY.causes})


def of(family: str) -> Iterator[tuple[str, Rule, Signature]]:
    """(name to show, cause, signature) of every signature of a family."""
    for known in LIBRARY.causes:
        if known.family == family:
            yield from ((f"{known.slug}/{n}", known, s) for n, s in enumerate(known.cause.signatures))


def reading(text: str, *patterns: str, facts_too: bool = True) -> Reading:
    """What is found in `text`."""
    known = LIBRARY.facts if facts_too else {}
    wanted = {*patterns, *(p for f in known.values() for p in f.patterns)}
    probes = {p: Matcher(p, required(p)) for p in wanted}
    scanner = Scanner(probes.values())
    scanner.feed(Block(file="x", first=1, data=text.encode()))
    scanner.finish()
    facts, lines = from_text(known, probes)
    return Reading(probes, facts, lines)


def alone(signature: Signature) -> Signature:
    """The signature without its conditions on the rest of the text."""
    return signature.model_copy(update={"needs": (), "unless": (), "recovered": (), "near": (), "not_near": ()})


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_match_and_counter_examples_do_not(family: str) -> None:
    wrong: list[str] = []
    for name, _, signature in of(family):
        bare = alone(signature)
        wanted = signature_patterns(bare)
        if not reading(signature.example, *wanted, facts_too=bool(signature.where)).lines(bare):
            wrong.append(f"{name}: the example does not match")
        if signature.counter_example and counter_matches(signature):
            wrong.append(f"{name}: the counter-example matches")
    assert wrong == []


def counter_matches(signature: Signature) -> bool:
    """Whether it matches its counter-example, were all that it needs beside it in the text."""
    there = signature.model_copy(update={"needs": (), "near": ()})
    found = reading(signature.counter_example, *signature_patterns(there), facts_too=bool(signature.where))
    return bool(found.lines(there))


def test_every_pattern_compiles_and_has_a_text_that_it_cannot_do_without() -> None:
    for pattern in LIBRARY.literals:
        re.compile(pattern)
    assert [p for p, texts in LIBRARY.literals.items() if not texts] == [], (
        "would be tried on every line of a large log"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_literal_stands_in_what_the_pattern_matches(family: str) -> None:
    wrong: list[str] = []
    for name, _, signature in of(family):
        matched = [x for x in signature.example.split("\n") if re.search(signature.pattern or r"\Z.", normal(x).text)]
        texts = [t.split(AND) for t in required(signature.pattern)] if signature.pattern else []
        if signature.pattern and not any(all(part in fold(x.encode()) for part in t) for x in matched for t in texts):
            wrong.append(name)
        if not all(_quick(signature.pattern, x) for x in matched):
            wrong.append(f"{name}: the quick test says no")
    assert wrong == []


def _quick(pattern: str, line: str) -> bool:
    return bool(Sieve(pattern, True, False).passed(Lines([normal(line).text.encode()]), [0]))


def test_every_signature_has_a_counter_example() -> None:
    """The near miss that a careful person would confuse it with."""
    assert [k.slug for k in LIBRARY.causes for s in k.cause.signatures if not s.counter_example] == []


def test_every_cause_has_a_signature_or_says_why_no_text_can_show_it() -> None:
    """The number of those without may only go down."""
    without = [k.slug for k in LIBRARY.causes if not (k.cause.signatures or k.cause.no_text)]
    assert without == []


def test_conditions_can_be_parsed() -> None:
    for known in LIBRARY.causes:
        for condition in (c for s in known.cause.signatures for c in s.where):
            parse(condition)


def test_every_cause_says_what_decides_and_what_must_not_be_done() -> None:
    """Also where no runbook reads the machine: the readings by hand are what `decided_by` and `remedy` say."""
    runbooks = {k.cause.runbook for k in LIBRARY.causes}
    assert [k.slug for k in LIBRARY.causes if not (k.cause.decided_by and k.cause.remedy)] == []
    assert [k.slug for k in LIBRARY.causes if k.family not in runbooks and not k.cause.must_not] == []


CHECKS = {  # a command or a comparison, though its words match a pattern of their cause
    "evicted", "name-not-resolved", "claim-function-missing", "live-task-requeued", "second-factor", "user-not-allowed",
    "worker-not-promoted", "wrong-user",
}  # fmt: skip


def test_what_would_decide_is_not_what_was_just_read() -> None:
    """The first thing to look at says more than the line of the text; where nothing else is known, it is a check all the same."""
    same = set()
    for known in LIBRARY.causes:
        for signature in (s for s in known.cause.signatures if s.pattern):
            first = checks_first(known.cause, [signature.example])[0]
            if any(re.search(s.pattern, first) for s in known.cause.signatures if s.pattern and re.search(s.pattern, signature.example)):
                same.add(known.slug)
    assert same == CHECKS


def test_what_the_text_says_already_is_the_last_that_would_decide() -> None:
    lost = next(k.cause for k in LIBRARY.causes if k.slug == "gpu-off-the-bus")
    words = 'NVML\'s words "GPU is lost"'
    order = checks_first(lost, ["Unable to determine the device handle for GPU0000:06:00.0: GPU is lost."])
    assert sorted(order) == sorted(lost.decided_by)
    assert order.index("more NVIDIA devices on the PCI bus than the driver lists, on the host") < order.index(words)
    assert order[0] != words
    assert checks_first(lost, ["nothing of it"]) == lost.decided_by


def test_facts_are_read_from_their_examples() -> None:
    for name, fact in LIBRARY.facts.items():
        for example in fact.examples:
            assert name in reading(example).facts, example


def test_references_to_other_causes_exist() -> None:
    names = {n for k in LIBRARY.causes for n in k.names}
    planned = {"gpu-held-by-others"}
    for known in LIBRARY.causes:
        for other in known.cause.caused_by:
            assert other == "*" or other in names | planned, f"{known.slug} yields to {other}, which is nowhere"
