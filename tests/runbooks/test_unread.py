"""What was not read is never well: over every situation of every runbook, each reading is lost in turn."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from flows.specs import load_spec
from runbooks.core.confirmed import OWN, unseen
from runbooks.core.fixed import seen_gone
from runbooks.core.knowledge import CauseKnowledge, Runbook, folder_of, load_runbook, runbook_slugs
from runbooks.core.plan import Plan
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.reading_words import label, model_in, words_of
from runbooks.core.unread import unread
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.runbooks.every import Situation, by_folder, situations
from tests.support.evidence_places import Place, replaced

LEAST_READINGS, LEAST_RUNBOOKS, LEAST_WORLDS = 60, 9, 10  # below these the test proves nothing; worlds of one runbook
LEAST_PLANS = 1000  # losses tried on situations with a plan
GONE = Unknown(reason=UnknownReason.TIMED_OUT, detail="lost by this test")
NEVER_EXCUSED = {
    "container-death": ("inside", "host", "fuse", "ray"),
    "stuck-spawning": ("pods", "orchestrator", "variables", "tasks", "queued", "workers", "deployment", "row"),
    "ray-job": ("nodes", "actors", "job", "other_jobs"),
    "stale-rendezvous": ("etcd", "etcd.alarms", "runs", "nodes[].facts"),
    "memory-pressure": ("gpus", "gpus.gpus[].processes"),
    "zombie-gpu": ("processes", "gpus", "gpus.gpus[].processes"),
}
# sub-readings of the same names that may be lost, each for the reason in its runbook.yaml: they tell of other machines, or of
# what an answer that was read has shown already
EXPLAINED = {
    ("zombie-gpu", "elsewhere[].processes"),
    ("zombie-gpu", "elsewhere[].gpus"),
    ("zombie-gpu", "elsewhere[].gpus.gpus[].processes"),
    ("container-death", "ray_head"),
    ("ray-job", "head"),
    ("stale-rendezvous", "etcd_stopped"),
}


class Loss(NamedTuple):
    """A situation judged again with one reading unknown."""

    case: Situation
    path: str  # as runbook.yaml names it
    place: Place
    before: Diagnosis
    after: Diagnosis

    def __str__(self) -> str:
        return f"{self.case.runbook} {self.path} in {self.case.title!r}: {self.after.state} {self.after.headline[:120]}"


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where the known and absent readings of an evidence stand, those inside a reading too; of alike items the first two."""
    if isinstance(value, Known | Absent):
        yield at
    if isinstance(value, Known):
        yield from places(value.value, (*at, "value"))
    elif isinstance(value, tuple):
        for i, item in enumerate(value[:2]):
            yield from places(item, (*at, i))
    elif isinstance(value, dict):
        for key in list(value)[:2]:
            yield from places(value[key], (*at, key))
    elif isinstance(value, BaseModel) and not isinstance(value, Absent | Unknown):
        for name in type(value).model_fields:
            yield from places(getattr(value, name), (*at, name))


def without(value: Any, place: Place) -> Any:
    """A copy of the evidence in which the reading at that place is unknown."""
    return replaced(value, place, GONE)


@cache
def losses(slug: str) -> tuple[Loss, ...]:
    """Every situation of the runbook that is healthy or has a plan, with each of its readings lost in turn."""
    found = []
    for case in (c for c in situations() if c.runbook == slug):
        before = case.judge()
        if before.state is State.HEALTHY or before.plans:
            found += [_loss(case, place, before) for place in places(case.evidence)]
    return tuple(found)


def _loss(case: Situation, place: Place, before: Diagnosis) -> Loss:
    evidence = without(case.evidence, place)
    (path,) = {x.path for x in unread(evidence) if x.reading == GONE}
    return Loss(case, path, place, before, case.judge(evidence))


def of_healthy(*slugs: str) -> list[Loss]:
    return [x for slug in slugs for x in losses(slug) if x.before.state is State.HEALTHY]


@cache
def books() -> dict[str, Runbook]:
    return {slug: load_runbook(slug) for slug in runbook_slugs()}


def test_enough_is_tried_to_mean_anything() -> None:
    """Readings, runbooks, and worlds in each."""
    tried = of_healthy(*runbook_slugs())
    worlds = Counter(case.runbook for case in situations() if case.judge().state is State.HEALTHY)
    assert len({(x.case.runbook, x.path) for x in tried}) >= LEAST_READINGS
    assert set(worlds) == set(runbook_slugs())
    assert len(worlds) >= LEAST_RUNBOOKS
    assert min(n for slug, n in worlds.items() if slug not in by_folder()) >= LEAST_WORLDS, worlds
    assert len([x for slug in runbook_slugs() for x in losses(slug) if x.before.plans]) >= LEAST_PLANS


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_lost_reading_is_never_well(slug: str) -> None:
    """It cannot be told, or runbook.yaml names what covers it, that was read, and the loss is said."""
    known = books()
    wrong = []
    for x in of_healthy(slug):
        cover = known[x.case.runbook].may_be_unread.get(x.path)
        if x.after.state is State.CANNOT_TELL:
            wrong += [f"{x}: not named"] if not _named(x) else []
        elif x.after.state is not State.HEALTHY:
            wrong += [] if _named_by_the_loss(x) else [f"{x}: not {x.after.state}"]
        elif cover is None:
            wrong.append(f"{x}: healthy, and nothing covers it")
        elif {y.path for y in unread(without(x.case.evidence, x.place))} & set(cover.covered_by):
            wrong.append(f"{x}: healthy, and what covers it was not read either")
        elif not _named(x):
            wrong.append(f"{x}: healthy, and not named")
    assert wrong == []


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_covers_a_reading_covers_it_where_something_is_wrong(slug: str) -> None:
    """No situation with a fault becomes healthy by losing a reading that another one is said to cover."""
    covered, wrong = books()[slug].may_be_unread, []
    for case in (c for c in situations() if c.runbook == slug and covered and c.judge().state is State.UNHEALTHY):
        for place in places(case.evidence):
            evidence = without(case.evidence, place)
            (path,) = {x.path for x in unread(evidence) if x.reading == GONE}
            if path in covered and case.judge(evidence).state is State.HEALTHY:
                wrong.append(f"{path} in {case.title!r}")
    assert wrong == []


@pytest.mark.parametrize("slug", runbook_slugs())
def test_where_nothing_at_all_was_read_nothing_is_well_and_nothing_is_offered(slug: str) -> None:
    """Every reading of each situation lost at once: no judge raises, none says well, not applicable, or offers a plan."""
    wrong = []
    for case in (c for c in situations() if c.runbook == slug):
        evidence, every = case.evidence, set(places(case.evidence))
        for place in (p for p in every if not any(p[:n] in every for n in range(len(p)))):
            evidence = without(evidence, place)
        after = case.judge(evidence)
        if after.state in (State.HEALTHY, State.NOT_APPLICABLE) or after.plans:
            wrong.append(f"{case.runbook} {case.title}: {after.state} {[p.name for p in after.plans]} {after.headline}")
    assert wrong == []


def _named_by_the_loss(x: Loss) -> bool:
    """Sick without a plan, of the silence itself: what does not answer is the symptom, and is cited. None is confirmed by it."""
    new = [c for c in x.after.wrong if c not in x.before.causes]
    cited = all("lost by this test" in " ".join(c.evidence) and c.certainty is not Certainty.CONFIRMED for c in new)
    return bool(new) and cited and not x.after.plans


def _named(x: Loss) -> bool:
    """Whether an unknown tells of the loss."""
    return any("lost by this test" in u for u in x.after.unknowns) and len(x.after.unknowns) > len(x.before.unknowns)


def test_nothing_is_well_while_two_readings_are_lost_that_cover_each_other() -> None:
    """What covers a reading is itself needed."""
    for slug, book in books().items():
        for path, cover in book.may_be_unread.items():
            assert not set(cover.covered_by) & set(book.may_be_unread), (slug, path)
            assert path not in NEVER_EXCUSED.get(slug, ()), (slug, path)


def names_in(path: str) -> set[str]:
    """The words of a path's last name: `elsewhere[].gpus.gpus[].processes` is one of processes, `ray_head` of Ray and its head."""
    return set(path.removesuffix("[]").rpartition(".")[2].split("_"))


def test_no_part_of_what_is_never_excused_is_excused_unseen() -> None:
    """Of the same last name, at whatever depth; those that are explained say so in data, and none is explained in vain."""
    excused = {(slug, path) for slug, book in books().items() for path in book.may_be_unread}
    never = {slug: {n for p in paths for n in names_in(p)} | {"head"} for slug, paths in NEVER_EXCUSED.items()}
    parts = {(slug, path) for slug, path in excused if names_in(path) & never.get(slug, set())}
    assert parts == EXPLAINED


def test_every_name_is_a_reading() -> None:
    """`may_be_unread`, `covered_by`, `rests_on`, `excluded_by` and `plan_needs` name readings that some situation has."""
    seen: dict[str, set[str]] = {slug: set() for slug in runbook_slugs()}
    for case in situations():
        seen[case.runbook] |= {y.path for p in places(case.evidence) for y in _lost_at(case, p)}
        seen[case.runbook] |= {y.path for y in unread(case.evidence)}
    for slug, book in books().items():
        named = {*book.may_be_unread, *(p for c in book.may_be_unread.values() for p in c.covered_by)}
        named |= {p for c in book.causes.values() for g in needs(c) for p in g.split(" or ")}
        assert named <= seen[slug], (slug, named - seen[slug])
        assert set(NEVER_EXCUSED.get(slug, ())) <= seen[slug]


def needs(known: CauseKnowledge) -> tuple[str, ...]:
    """What a cause and a plan for it need, the items of a list not told apart."""
    return tuple(g.replace(OWN, "[]") for g in (*known.rests_on, *known.excluded_by.values(), *known.plan_needs))


def _lost_at(case: Situation, place: Place) -> list[Any]:
    return [y for y in unread(without(case.evidence, place)) if y.reading == GONE]


@pytest.mark.parametrize("slug", runbook_slugs())
def test_no_caller_gets_past_the_rule(slug: str) -> None:
    """The rule is part of every `diagnose`: whoever calls it gets what it allows."""
    module = import_module(f"runbooks.{folder_of(slug)}.diagnose")
    source = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    (judge,) = [f for f in source.body if isinstance(f, ast.FunctionDef) and f.name == "diagnose"]
    assert [ast.unparse(d) for d in judge.decorator_list] == [f"by_the_rules('{slug}')"]
    spec = load_spec(slug)
    assert spec.diagnose is module.diagnose


@pytest.mark.parametrize("slug", runbook_slugs())
def test_no_plan_survives_the_loss_of_what_it_rests_on(slug: str) -> None:
    """A plan that is offered all the same stands on causes that say word for word what they said before, or runbook.yaml
    names another reading that is enough."""
    wrong = []
    for x in losses(slug):
        for plan in x.after.plans if x.before.plans else ():
            lost_ground = [c for c in _grounds(x.after, plan) if not _still_told(x, c)]
            same = any(set(plan.owners) <= set(p.owners) and _does(plan) <= _does(p) for p in x.before.plans)
            if (lost_ground or not same) and not _enough(x, plan):
                wrong.append(f"{x}: {plan.name} for {plan.for_causes}: {[c.evidence for c in lost_ground]} {same}")
    assert wrong == []


@pytest.mark.parametrize("slug", runbook_slugs())
def test_no_fault_is_seen_gone_because_what_shows_it_was_lost(slug: str) -> None:
    """The world is as sick as it was, one reading is lost, and another finding is there: the plan did not fix it."""
    tried, wrong = 0, []
    for x in losses(slug):
        for plan in (p for p in x.before.plans if not seen_gone(p, x.before)):
            tried += 1
            blind = unseen(books()[slug], plan, x.before, without(x.case.evidence, x.place))
            if x.after.state is State.UNHEALTHY and seen_gone(plan, x.after, blind):
                wrong.append(f"{x}: {plan.name} for {plan.for_causes}")
    assert wrong == []
    assert tried > 0 or not books()[slug].actions


def _still_told(x: Loss, cause: Cause) -> bool:
    """Every sentence of it was there before, and none is missing; or the silence itself is the symptom."""
    twins = [c.evidence for c in x.before.causes if (c.slug, c.subject) == (cause.slug, cause.subject)]
    said = {line for c in x.before.causes for line in c.evidence}
    same = cause.evidence in twins if twins else said >= set(cause.evidence)
    return same or "lost by this test" in " ".join(cause.evidence)


def _grounds(d: Diagnosis, plan: Plan) -> list[Cause]:
    return [c for c in d.causes if c.slug in plan.for_causes and c.certainty is not Certainty.RULED_OUT]


def _does(plan: Plan) -> set[str]:
    """Every step with what it would be done to; of a step about several processes, each."""
    found = set()
    for step in plan.steps:
        many = step.args.get("processes")
        parts = [{**step.args, "processes": [p]} for p in many] if many else [step.args]
        found |= {f"{step.kind} {step.owner} {sorted(part.items(), key=str)}" for part in parts}
    return found


def _enough(x: Loss, plan: Plan) -> bool:
    """Whether one of its causes names alternatives to the lost reading, and one of them was read."""
    book = books()[x.case.runbook]
    blind = {y.path for y in unread(without(x.case.evidence, x.place))}
    causes = [book.causes[c] for c in plan.for_causes if c in book.causes]
    groups = [g.split(" or ") for c in causes for g in needs(c)]
    return any(x.path in g and set(g) - blind for g in groups)


def steps_down(kind: type[BaseModel], seen: frozenset[type[BaseModel]] = frozenset()) -> Iterator[str]:
    """Patterns of the ways of a type from one field to the next: "far.other_lines", "gpus[0]", by name and by title."""
    for name, field in kind.model_fields.items():
        called, inner = {name, label(kind, name)}, model_in(field.annotation)
        here = "|".join(sorted(map(re.escape, called)))
        yield rf"(?:{here})\[[^\]\n]*\]"
        if inner and inner not in seen:
            below = "|".join(sorted({re.escape(w) for n in inner.model_fields for w in (n, label(inner, n))}))
            yield rf"(?:{here})(?:\[[^\]\n]*\])?\.(?:{below})" if below else rf"(?:{here})\[\d+\]"
            yield from steps_down(inner, seen | {kind, inner})


@cache
def field_paths(slug: str) -> re.Pattern[str]:
    evidence = import_module(f"runbooks.{folder_of(slug)}.evidence").Evidence
    return re.compile(rf"(?<![\w./\[-])(?:{'|'.join(dict.fromkeys(steps_down(evidence)))})(?![\w/-])")


def said(found: Diagnosis) -> list[str]:
    """What a person reads of a judgment, without code spans and what was quoted from the world."""
    lines = [found.headline, found.symptom, found.covers, *found.unknowns, *found.do_now, *found.must_not]
    lines += [w for f in found.findings for w in (f.issue, f.action)] + [d for c in found.causes for d in c.decides]
    return [re.sub(r"`[^`]*`", "", line) for line in lines]


MAY_HOLD = re.compile(r"\w[.\[][\w\]]|\w\[/")  # what a line must have to hold one: the pattern itself is long


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_person_reads_words_and_no_path_of_a_field(slug: str) -> None:
    """Over every situation as it is, and with each of its readings lost."""
    judged = [(case, case.judge()) for case in situations() if case.runbook == slug] + [(x.case, x.after) for x in losses(slug)]
    assert judged
    lines = {line: case for case, found in judged for line in said(found) if MAY_HOLD.search(line)}
    hits = [(line, case, hit[0]) for line, case in lines.items() if (hit := field_paths(slug).search(line))]
    wrong = [f"{case.title}: {line[:200]}" for line, case, hit in hits if hit not in case.evidence.model_dump_json()]
    assert wrong == [], "what the machine itself said may look like one"


def test_a_path_of_a_field_is_seen() -> None:
    for slug, line in (
        ("ssh-auth-failure", "unexplained, in far.other_lines: sshd[9]: error"), ("zombie-gpu", "gpus.gpus[0].process table: denied"),
        ("stale-rendezvous", "nodes[n2].facts: unreachable"), ("data-check", "files[/data/a]: denied"), ("ray-job", "node logs[n].logs: x"),
        ("checkpoint-fallback", "not read: tiers[].candidates"),
    ):  # fmt: skip
        assert field_paths(slug).search(line), line
    assert not field_paths("zombie-gpu").search("process table of GPU 0: denied; see /var/log.gpus[0] and a.processes")


@pytest.mark.parametrize(
    ("slug", "path", "words"),
    [
        ("zombie-gpu", "gpus.gpus[].processes", "process table of each GPU"),
        ("zombie-gpu", "elsewhere[].gpus.gpus[].processes", "process table of each GPU of each node"),
        ("ssh-auth-failure", "far.other_lines", "log lines of the far side"),
        ("stale-rendezvous", "etcd or nodes[own].facts", "etcd or facts of each node"),
        ("distributed-setup", "nodes[own].facts.interfaces", "interfaces of each node"),
        ("data-check", "files[own]", "each file"),
        ("ray-job", "node_logs[].logs[].lines", "lines of each log of each node"),
    ],
)
def test_a_path_of_the_knowledge_in_words(slug: str, path: str, words: str) -> None:
    assert words_of(import_module(f"runbooks.{folder_of(slug)}.evidence").Evidence, path) == words


def test_a_lost_reading_is_named_by_the_name_of_its_item() -> None:
    told = {x.label for slug in runbook_slugs() for loss in losses(slug)[:400] for x in unread(without(loss.case.evidence, loss.place))}
    shapes = {re.sub(r" [^ ]*[\d/.-][^ ]*", " X", label) for label in told}
    assert {"process table of GPU X", "lines of log X of node X", "file X"} <= shapes, sorted(shapes)
