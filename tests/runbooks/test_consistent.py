"""No report against itself: over every situation, plans, what to do now, findings, prohibitions and causes do not contradict."""

import re
from collections.abc import Iterator

import pytest

from runbooks.core.confirmed import rivals
from runbooks.core.forbidden import is_about, objection
from runbooks.core.knowledge import Runbook, load_runbook, runbook_slugs
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from tests.runbooks.every import situations
from tests.support.arguments import ending
from tests.support.at_odds import at_odds

TOLD = (Certainty.CONFIRMED, Certainty.LIKELY)
OF_OTHERS = {"task-held-by-dead-worker"}  # told in the report of a worker that is well: it is about another one
LEAST_PLANS, LEAST_PAIRS = 150, 80  # plans looked at; reports with several causes


def contradictions(book: Runbook, found: Diagnosis) -> list[str]:
    """What a report says against itself, in words."""
    plans = (x for p in found.plans for x in _of_plan(book, found, p))
    remedies = at_odds((c.slug, book.causes[c.slug].remedy, book.causes[c.slug].must_not) for c in found.wrong)
    return [*_of_state(found), *plans, *_of_causes(book, found), *_of_words(found), *remedies]


def _of_state(found: Diagnosis) -> Iterator[str]:
    wrong = [c.slug for c in found.wrong if c.certainty in TOLD and c.slug not in OF_OTHERS]
    if found.state in (State.HEALTHY, State.NOT_APPLICABLE):
        yield from (f"{found.state}, and {slug}" for slug in wrong)
    if found.state is not State.UNHEALTHY:
        yield from (f"{found.state}, and “{p.name}” is offered" for p in found.plans)


def _of_plan(book: Runbook, found: Diagnosis, plan: Plan) -> Iterator[str]:
    """It is forbidden, withheld as well, for nothing that stands, or done to what is benign."""
    standing = {c.slug: c.certainty for c in sorted(found.causes, key=lambda c: -list(Certainty).index(c.certainty))}
    if words := objection(book, found, plan):
        yield f"“{plan.name}” is offered: {words}"
    if any(f"“{plan.name}” is not offered" in line for line in found.do_now):
        yield f"“{plan.name}” is offered, and is not"
    yield from (f"“{plan.name}” is for {s}: {standing.get(s, 'not in the report')}" for s in plan.for_causes if standing.get(s) not in TOLD)
    for cause in (c for c in found.causes if c.benign and c.certainty in TOLD):
        yield from (f"“{plan.name}” is about {cause.subject}, which is benign" for s in plan.steps if is_about(cause, s))


def _of_causes(book: Runbook, found: Diagnosis) -> Iterator[str]:
    """Two verdicts about one thing of which one excludes the other, one at least confirmed; guilty and benign at once."""
    for cause in (c for c in found.causes if c.certainty is Certainty.CONFIRMED):
        for other in rivals(book, book.causes[cause.slug], cause, found.causes):
            yield f"{cause.slug} is confirmed, and {other.slug} is {other.certainty}"
    for one in (c for c in found.causes if c.benign and c.certainty in TOLD):
        for other in found.wrong:
            if other.certainty in TOLD and other.subject == one.subject:
                yield f"{one.subject} is benign ({one.slug}) and not ({other.slug})"


def _of_words(found: Diagnosis) -> Iterator[str]:
    """What is to be done is what must not be done."""
    forbidden = {_plain(x): x for x in found.must_not}
    for line in (*found.do_now, *(f.action for f in found.findings)):
        for part in re.split(r"(?<=[;.])\s", line):
            met = [x for plain, x in forbidden.items() if plain and f"{_plain(part)} ".startswith(f"{plain} ")]
            yield from (f"do “{part}”, and do not “{x}”" for x in met)


def _plain(line: str) -> str:
    """The order in it, without its reason; "" for a prohibition told as such."""
    order = re.sub(r"[^a-z0-9 ]", "", re.split(r":\s|[;,.](?:\s|$)", line.lower())[0]).strip()
    return "" if re.match(r"(?i)(?:do not|dont|never)\b", order) or len(order.split()) < 2 else order


@pytest.mark.parametrize("slug", runbook_slugs())
def test_no_report_contradicts_itself(slug: str) -> None:
    book = load_runbook(slug)
    wrong = [f"{case.title}: {x}" for case in situations() if case.runbook == slug for x in contradictions(book, case.judge())]
    assert wrong == []


def test_enough_is_looked_at() -> None:
    judged = [case.judge() for case in situations()]
    assert sum(len(d.plans) for d in judged) >= LEAST_PLANS
    assert sum(len(d.causes) > 1 for d in judged) >= LEAST_PAIRS


def _cause(slug: str, certainty: Certainty = Certainty.LIKELY, subject: str = "pid 7 on GPU 0", benign: bool = False) -> Cause:
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=("as read",), benign=benign)


END = Plan(
    name="end it", for_causes=("stopped",),
    steps=(Step(kind="terminate-processes", owner="a", args=ending(7), commands=(), effect="gone"),),
)  # fmt: skip
DRAIN = Finding(priority="HIGH", category="c", issue="i", action="Drain it, reset it.")
BASE = Diagnosis(state=State.UNHEALTHY, headline="h", causes=(_cause("stopped"),), plans=(END,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"state": State.HEALTHY}, "healthy, and"),
        ({"state": State.CANNOT_TELL}, "is offered"),
        ({"causes": (_cause("stopped", Certainty.RULED_OUT),)}, "is for stopped: ruled-out"),
        ({"causes": ()}, "not in the report"),
        ({"do_now": ("“end it” is not offered: not read: facts",)}, "and is not"),
        ({"causes": (_cause("stopped"), _cause("debugged", benign=True))}, "is benign"),
        ({"causes": (_cause("stopped"), _cause("transferring", benign=True))}, "forbids terminate-processes"),
        ({"causes": (_cause("stopped", Certainty.CONFIRMED), _cause("debugged", Certainty.POSSIBLE))}, "stopped is confirmed"),
        ({"do_now": ("Reset the GPU; then look.",), "must_not": ("reset the GPU: others use it",)}, "do not"),
        ({"findings": (DRAIN,), "must_not": ("drain it",)}, "do not"),
        ({"do_now": ("Reset the card of n1.",), "must_not": ("reset the card: others use it", "Do not drain it")}, "do not"),
    ],
)
def test_a_contradiction_is_seen(change: dict[str, object], words: str) -> None:
    found = contradictions(load_runbook("zombie-gpu"), BASE.model_copy(update=change))
    assert any(words in x for x in found) if words else found == []
