"""Every signature matches its example and not its counter-example; every cause forbids something."""

import re

import pytest

from runbooks.core.knowledge import Signature
from runbooks.triage.expr import parse
from runbooks.triage.facts import from_text
from runbooks.triage.judge import Reading
from runbooks.triage.literals import AND, fold, required
from runbooks.triage.load import FactKnowledge, Known, library, signature_patterns
from runbooks.triage.normal import normal
from runbooks.triage.probe import Probe
from runbooks.triage.scan import Scanner
from runbooks.triage.sources import Block

LIBRARY = library()
SIGNATURES = [
    pytest.param(known, s, id=f"{known.family}/{known.slug}/{n}")
    for known in LIBRARY.causes
    for n, s in enumerate(known.cause.signatures)
]
FAMILIES = [k for k in LIBRARY.causes if "/" not in k.family]


def reading(text: str, *patterns: str) -> Reading:
    """What is found in `text`."""
    wanted = {*patterns, *(p for f in LIBRARY.facts.values() for p in f.patterns)}
    probes = {p: Probe(p, required(p)) for p in wanted}
    scanner = Scanner(probes.values())
    scanner.feed(Block(file="x", first=1, data=text.encode()))
    scanner.finish()
    facts, lines = from_text(LIBRARY.facts, probes)
    return Reading(probes, facts, lines)


def alone(signature: Signature) -> Signature:
    """The signature without its conditions on the rest of the text."""
    return signature.model_copy(update={"needs": (), "unless": (), "near": (), "not_near": ()})


@pytest.mark.parametrize(("known", "signature"), SIGNATURES)
def test_the_example_matches_and_the_counter_example_does_not(known: Known, signature: Signature) -> None:
    bare = alone(signature)
    assert reading(signature.example, *signature_patterns(bare)).lines(bare), "the example does not match"
    if signature.counter_example:
        assert not reading(signature.counter_example, *signature_patterns(bare)).lines(bare)


@pytest.mark.parametrize("pattern", sorted(LIBRARY.literals))
def test_every_pattern_compiles_and_has_a_text_that_it_cannot_do_without(pattern: str) -> None:
    re.compile(pattern)
    assert LIBRARY.literals[pattern], "would be tried on every line of a large log"


@pytest.mark.parametrize(("known", "signature"), SIGNATURES)
def test_the_literal_stands_in_what_the_pattern_matches(known: Known, signature: Signature) -> None:
    if not signature.pattern:
        return
    matched = [x for x in signature.example.split("\n") if re.search(signature.pattern, normal(x).text)]
    assert any(
        all(part in fold(x.encode()) for part in text.split(AND))
        for x in matched
        for text in required(signature.pattern)
    )


@pytest.mark.parametrize(("known", "signature"), SIGNATURES)
def test_conditions_can_be_parsed(known: Known, signature: Signature) -> None:
    for condition in signature.where:
        parse(condition)


@pytest.mark.parametrize("known", LIBRARY.causes, ids=lambda k: f"{k.family}/{k.slug}")
def test_every_cause_says_what_decides_and_family_causes_what_must_not_be_done(known: Known) -> None:
    assert known.cause.decided_by
    assert known.cause.remedy
    if known.family not in {k.cause.runbook for k in LIBRARY.causes}:
        assert known.cause.must_not


@pytest.mark.parametrize("name", sorted(LIBRARY.facts))
def test_facts_are_read_from_their_examples(name: str) -> None:
    fact: FactKnowledge = LIBRARY.facts[name]
    for example in fact.examples:
        assert name in reading(example).facts, example


def test_references_to_other_causes_exist() -> None:
    names = {n for k in LIBRARY.causes for n in k.names}
    planned = {"gpu-held-by-others"}
    for known in LIBRARY.causes:
        for other in known.cause.yields_to:
            assert other == "*" or other in names | planned, f"{known.slug} yields to {other}, which is nowhere"
