"""Confirmed means excluded: over every situation with a confirmed cause, each reading that it cites is lost in turn."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from runbooks.core.base import Frozen
from runbooks.core.confirmed import OWN, _of_one, granted
from runbooks.core.forbidden import NAMED
from runbooks.core.knowledge import CauseKnowledge, Runbook, folder_of, load_runbook, runbook_slugs
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Absent, Known, Reading
from runbooks.core.unread import readings_of, unread
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.runbooks.every import Situation, situations
from tests.runbooks.test_unread import GONE, places, without
from tests.support.evidence_places import Place

LEAST_LOSSES, LEAST_CAUSES, LEAST_READINGS = 1850, 280, 680  # found when this was written; fewer would hide what is not tried
SURE = Certainty.CONFIRMED
COMMAND = "python -m tests.runbooks.test_confirmed"
FIRST, LAST = f"<!-- confirmed: written by `{COMMAND}` -->", "<!-- end of confirmed -->"
RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"


class Cited(NamedTuple):
    """A confirmed cause, and what the judgment is without one reading that it cites."""

    case: Situation
    cause: Cause
    path: str
    before: Diagnosis
    after: Diagnosis
    blind: frozenset[str]  # paths that are unknown now

    def __str__(self) -> str:
        return f"{self.case.runbook} {self.cause.slug} without {self.path} in {self.case.title!r}"


@cache
def book(slug: str) -> Runbook:
    return load_runbook(slug)


def claimed(case: Situation, evidence: BaseModel) -> Diagnosis:
    """What the judge says before any rule."""
    module = import_module(f"runbooks.{folder_of(case.runbook)}.diagnose")
    found: Diagnosis = module.diagnose.__wrapped__(evidence, module.Limits.model_validate(case.limits))
    return found


def thing(cause: Cause) -> tuple[str, str]:
    """A cause's slug and the id it is about: the rest of the subject may hold what is lost."""
    return cause.slug, next(iter(NAMED.findall(cause.subject)), cause.subject)


def sure(found: Diagnosis) -> dict[tuple[str, str], Cause]:
    return {thing(c): c for c in found.causes if c.certainty is SURE}


@cache
def losses(slug: str) -> tuple[tuple[Situation, Place, str, Diagnosis, Diagnosis], ...]:
    """Every situation of the runbook with a confirmed cause, with each of its readings lost in turn."""
    found = []
    for case in (c for c in situations() if c.runbook == slug):
        before = case.judge()
        for place in places(case.evidence) if sure(before) else ():
            evidence = without(case.evidence, place)
            (path,) = {x.path for x in unread(evidence) if x.reading == GONE}
            found.append((case, place, path, before, case.judge(evidence)))
    return tuple(found)


@cache
def cited(slug: str) -> tuple[Cited, ...]:
    """A reading is cited where runbook.yaml names it for the cause, or where the judge says something else without it."""
    found = []
    for case, place, path, before, after in losses(slug):
        evidence = without(case.evidence, place)
        said, blind = claimed(case, evidence), frozenset(x.path for x in unread(evidence))
        (lost,) = [x for x in unread(evidence) if x.reading == GONE]
        shared = {x.path for x in readings_of(case.evidence) if x.items and x.path.count("[]") < len(x.items)}
        for cause in sure(before).values():
            same = any(c.evidence == cause.evidence and c.slug == cause.slug and c.certainty is SURE for c in said.causes)
            of_another = not lost.items and path in shared  # each worker has its own of these
            if not same or (not of_another and names(book(case.runbook).causes[cause.slug], path, cause, lost.items)):
                found.append(Cited(case, cause, path, before, after, blind))
    return tuple(found)


def names(known: CauseKnowledge, path: str, cause: Cause, items: tuple[str, ...]) -> bool:
    """Whether runbook.yaml names that reading for the cause; of a list's items only the cause's own, where it says so or
    where the item is an evidence of its own."""
    plain = [p for g in (*known.rests_on, *known.excluded_by.values()) for p in g.split(" or ")]
    own = not items or any(re.search(rf"(?<![\w-]){re.escape(i)}(?![\w-])", cause.subject) for i in items)
    every = path in plain and (own or path.count("[]") == len(items))
    return every or (own and path in [p.replace(OWN, "[]") for p in plain])


def enough(x: Cited) -> bool:
    """Whether every sentence that names the lost reading names another that is enough, and that was read."""
    known = book(x.case.runbook).causes[x.cause.slug]
    groups = [g.replace(OWN, "[]").split(" or ") for g in (*known.rests_on, *known.excluded_by.values())]
    mine = [set(g) for g in groups if x.path in g]
    return bool(mine) and all(g - x.blind for g in mine)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_confirmed_cause_falls_with_each_reading_that_it_cites(slug: str) -> None:
    """Not confirmed any more, or runbook.yaml names another reading that is enough and was read."""
    wrong = [str(x) for x in cited(slug) if thing(x.cause) in sure(x.after) and not enough(x)]
    assert wrong == []


@pytest.mark.parametrize("slug", runbook_slugs())
def test_its_plan_goes_with_it(slug: str) -> None:
    """No plan is offered for a cause that lost what it cites."""
    assert left(slug) == []


def left(slug: str) -> list[str]:
    """Plans that are offered for a cause that lost what it cites."""
    lost = [x for x in cited(slug) if not enough(x)]
    return [f"{x}: {p.name}" for x in lost for p in x.after.plans if x.cause.slug in p.for_causes and _is_for(p, x)]


def _is_for(plan: Plan, x: Cited) -> bool:
    """Not for another thing with the same cause, which lost nothing."""
    return not any(c.slug == x.cause.slug and thing(c) != thing(x.cause) for c in sure(x.after).values())


@pytest.mark.parametrize("slug", runbook_slugs())
def test_no_loss_confirms_anything(slug: str) -> None:
    """What is not read excludes nothing: no cause is confirmed without a reading that was not confirmed with it."""
    wrong = []
    for case, _, path, before, after in losses(slug):
        new = sure(after).keys() - sure(before).keys()
        wrong += [f"{case.runbook} {cause} ({of}) without {path} in {case.title!r}" for cause, of in new]
    assert wrong == []


class Count(NamedTuple):
    """What was tried of one runbook, and what came of it."""

    causes: int
    readings: int
    losses: int
    fell: int
    enough: int  # another reading that runbook.yaml names decides, and was read
    stood: int
    plan: int  # lost what it cites, and its plan is still offered

    def row(self, of: str) -> str:
        return f"| {of} | " + " | ".join(str(n) for n in self) + " |"


def count(slug: str) -> Count:
    tried = cited(slug)
    standing = [x for x in tried if thing(x.cause) in sure(x.after)]
    enough_ = sum(enough(x) for x in standing)
    return Count(
        len({x.cause.slug for x in tried}), len({(x.cause.slug, x.path) for x in tried}), len(tried), len(tried) - len(standing),
        enough_, len(standing) - enough_, len(left(slug)),
    )  # fmt: skip


def counted() -> str:
    """The counts over all runbooks, as the table that RESULTS.md publishes."""
    counts = {slug: count(slug) for slug in runbook_slugs()}
    whole = Count(*(sum(column) for column in zip(*counts.values(), strict=True)))
    head = "| runbook | confirmed causes | readings that they cite | losses tried | the certainty fell | another reading is enough "
    head += "| confirmed as before | the plan stayed |\n|---|" + "---|" * len(whole)
    return "\n".join((head, *(counts[slug].row(f"`{slug}`") for slug in sorted(counts)), whole.row("all")))


def published() -> dict[str, Count]:
    """What RESULTS.md says."""
    part = RESULTS.read_text(encoding="utf-8").partition(FIRST)[2].partition(LAST)[0]
    rows = [[c.strip(" `") for c in line.strip("|").split("|")] for line in part.strip().splitlines()[2:]]
    return {of: Count(*(int(n) for n in numbers)) for of, *numbers in rows}


def write() -> None:
    """The counts."""
    head, _, rest = RESULTS.read_text(encoding="utf-8").partition(FIRST)
    RESULTS.write_text(head + FIRST + "\n" + counted() + "\n" + LAST + rest.partition(LAST)[2], encoding="utf-8")


@pytest.mark.parametrize("slug", sorted(published().keys() - {"all"}))
def test_the_count_is_published(slug: str) -> None:
    """As tests/RESULTS.md says it, to 5 % or 2: a situation more or less is no news."""
    now, said = count(slug), published()[slug]
    for name in Count._fields:
        assert abs(getattr(now, name) - getattr(said, name)) <= max(2, 0.05 * getattr(said, name)), f"{name}: run {COMMAND}"
    assert (said.stood, said.plan) == (0, 0)


def test_the_published_sum_is_enough_to_mean_anything() -> None:
    rows = published()
    whole = rows.pop("all")
    assert set(rows) <= set(runbook_slugs())  # a new runbook needs no row
    assert whole == Count(*(sum(column) for column in zip(*rows.values(), strict=True)))
    assert whole.losses >= LEAST_LOSSES
    assert whole.causes >= LEAST_CAUSES
    assert whole.readings >= LEAST_READINGS


@pytest.mark.parametrize("slug", runbook_slugs())
def test_whatever_is_confirmed_has_its_grounds_and_its_alternatives(slug: str) -> None:
    """What decides it and what else it could be stand in runbook.yaml, for every cause that any situation confirms."""
    for case in (c for c in situations() if c.runbook == slug):
        for cause in case.judge().causes:
            if cause.certainty is SURE:
                known = book(case.runbook).causes[cause.slug]
                assert known.rests_on, (case.runbook, cause.slug)
                assert known.excluded_by, (case.runbook, cause.slug)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_an_alternative_is_a_cause_of_the_runbook_or_said_in_words(slug: str) -> None:
    causes = book(slug).causes
    for name, known in causes.items():
        assert bool(known.rests_on) == bool(known.excluded_by), f"{name}: both, or it is never confirmed"
        for other in known.excluded_by:
            assert other != name
            assert other in causes or " " in other, (name, other)


class Part(Frozen):
    node: str
    disk: Reading[int]


class Seen(Frozen):
    log: Reading[str]
    kernel: Reading[str]
    parts: tuple[Part, ...] = ()


def toy(**more: Any) -> Runbook:
    """Two causes that exclude each other, and one that nothing decides."""
    common = {"title": "t", "explanation": "e", "decided_by": ["d"], "remedy": "r"}
    causes = {
        "ended": {**common, "rests_on": ["log"], "excluded_by": {"killed": "kernel", "a person": "log"}},
        "killed": {**common, "rests_on": ["kernel"], "excluded_by": {"ended": "log"}},
        "full": {**common, "rests_on": ["parts[own].disk"], "excluded_by": {"a quota": "parts[own].disk or log"}},
        "bare": common,
    }
    rest = {"slug": "toy", "title": "t", "summary": "s", "symptoms": [], "target": "t", "limits": {}}
    return Runbook.model_validate({**rest, "causes": causes, **more})


READ, NONE = Known[str](value="x"), Absent(proof="none here")
END = Plan(name="end it", steps=(Step(kind="k", owner="a", args={}, commands=(), effect="e"),), for_causes=("ended",))


def judged(seen: Seen, *causes: Cause, **more: Any) -> Diagnosis:
    claim = Diagnosis(state=State.UNHEALTHY, headline="h", causes=causes, plans=(END,))
    return granted(toy(**more), seen, claim)


def claim(slug: str, subject: str = "job", certainty: Certainty = SURE) -> Cause:
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=("as read",))


@pytest.mark.parametrize(
    ("log", "kernel", "stands"), [(READ, READ, True), (READ, NONE, True), (READ, GONE, False), (GONE, READ, False), (GONE, GONE, False)]
)
def test_what_decides_and_what_excludes_must_both_be_read(log: Any, kernel: Any, stands: bool) -> None:
    found = judged(Seen(log=log, kernel=kernel), claim("ended"))
    assert (found.causes[0].certainty is SURE) is stands
    assert bool(found.plans) is stands
    assert stands or any("“end it” is not offered: not read" in line for line in found.do_now)
    assert stands or any("it was not read" in line for line in found.causes[0].decides)


def test_a_cause_without_grounds_is_never_confirmed() -> None:
    """No default branch: neither a cause that the knowledge does not know, nor one for which it names nothing."""
    for slug in ("bare", "unheard-of"):
        assert judged(Seen(log=READ, kernel=READ), claim(slug)).causes[0].certainty is Certainty.LIKELY


@pytest.mark.parametrize("other", [SURE, Certainty.LIKELY, Certainty.POSSIBLE])
def test_an_alternative_that_stands_is_not_excluded(other: Certainty) -> None:
    """Of the same thing, and none of them is confirmed beside another; what is ruled out or of another thing takes nothing away."""
    seen = Seen(log=READ, kernel=READ)
    found = judged(seen, claim("ended"), claim("killed", certainty=other))
    assert not sure(found)
    assert any("whether it is killed: d" in line for line in found.causes[0].decides)
    assert bool(found.plans) is (other is Certainty.POSSIBLE), "a plan is for a person to choose where the other is only possible"
    for rival in (claim("killed", "pid 7", other), claim("killed", certainty=Certainty.RULED_OUT)):
        assert ("ended", "job") in sure(judged(seen, claim("ended"), rival))
    assert not sure(judged(seen, claim("ended"), claim("killed", "the machine", other), judges_one=True))


def test_of_a_list_the_item_that_the_cause_is_about_counts() -> None:
    parts = (Part(node="a", disk=Known[int](value=0)), Part(node="b", disk=GONE))
    seen = Seen(log=GONE, kernel=READ, parts=parts)
    for subject, stands in (("disk of a", True), ("disk of b", False), ("every disk", False)):
        assert bool(sure(judged(seen, claim("full", subject)))) is stands, subject
    assert not sure(judged(Seen(log=READ, kernel=READ), claim("full", "disk of a"))), "nothing was read there"


@pytest.mark.parametrize(
    ("slug", "one", "other", "same"),
    [
        ("stale-rendezvous", "run job (etcd)", "run job (etcd-v2)", False),
        ("stale-rendezvous", "run job (etcd)", "run job", True),
        ("container-death", "container a (fuse)", "the engine on n (docker)", True),  # it judges one thing, whatever the subjects
    ],
)
def test_an_id_in_two_places_is_two_things_unless_the_runbook_judges_one(slug: str, one: str, other: str, same: bool) -> None:
    a, b = (Cause(slug="x", certainty=Certainty.LIKELY, subject=s, evidence=("seen",)) for s in (one, other))
    assert _of_one(load_runbook(slug), a, b) is same


if __name__ == "__main__":
    write()
