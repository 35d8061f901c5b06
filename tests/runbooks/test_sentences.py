"""Every sentence of ours in the judgment of every situation is one that a person reads once, at 3 a.m."""

import re
from collections.abc import Iterator

import pytest

from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.plan import Plan
from runbooks.core.verdict import Diagnosis
from tests.runbooks.every import situations
from tests.support.prose import CODE, LONGEST, length, sentences

LEAST = 10_000  # sentences; with fewer the test proves nothing
FOREIGN = re.compile(r"“[^”]*”|\"[^\"]*\"")
_COUNT: dict[str, int] = {}


def texts(found: Diagnosis) -> Iterator[str]:
    """What of a judgment is written in sentences."""
    yield found.headline
    yield from (line for c in found.causes for line in (*c.evidence, *c.decides))
    yield from (*found.do_now, *found.must_not, *found.waiting_costs, *(f.issue for f in found.findings))
    yield from (line for p in (*found.plans, *found.knowingly) for line in _of_plan(p))
    yield from (line for g in found.groups for line in (*g.ties, *g.at_work))


def _of_plan(plan: Plan) -> Iterator[str]:
    yield from (plan.why, plan.despite)
    yield from (line for step in plan.steps for line in (step.effect, step.loses))


def counted(text: str, titles: "re.Pattern[str]", subjects: list[str]) -> list[str]:
    """Its sentences as they are counted: a title, a subject, code and what is quoted are a word each; titles have a test of their own."""
    text = titles.sub("Title", text)
    for subject in subjects:
        text = text.replace(subject, "Subject")
    return list(sentences(FOREIGN.sub("Quoted", CODE.sub("Code", text))))


def titles_of(slug: str) -> "re.Pattern[str]":
    return re.compile("|".join(re.escape(t) for t in sorted((c.title for c in load_runbook(slug).causes.values()), key=len, reverse=True)))


@pytest.mark.parametrize("slug", runbook_slugs())
def test_every_sentence_is_short(slug: str) -> None:
    wrong, titles, judged = set(), titles_of(slug), 0
    for case in (c for c in situations() if c.runbook == slug):
        found = case.judge()
        subjects = sorted({c.subject for c in found.causes if c.subject}, key=len, reverse=True)
        for sentence in (s for text in texts(found) for s in counted(text, titles, subjects)):
            judged += 1
            if length(sentence) > LONGEST:
                wrong.add(f"{length(sentence)} words: {sentence} ({case.title})")
    _COUNT[slug] = judged
    assert sorted(wrong) == []
    assert judged


def test_enough_is_judged() -> None:
    """Where all of them were."""
    if set(_COUNT) == set(runbook_slugs()):
        assert sum(_COUNT.values()) >= LEAST, _COUNT


def test_a_long_sentence_is_seen() -> None:
    title = load_runbook("zombie-gpu").causes["device-spin"].title
    text = f"{title}: pid 7 on GPU 0: {'word ' * 23}of the machine"
    assert [length(s) for s in counted(text, titles_of("zombie-gpu"), ["pid 7 on GPU 0"])] == [28]
    assert [length(s) for s in counted("It says “a b c d” of `x y z`. It ends.", titles_of("zombie-gpu"), [])] == [5, 2]
