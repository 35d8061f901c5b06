"""No default branch confirms. What is confirmed falls when a reading that it rests on is as it is where all is well, and what says
less confirms nothing new: neither in the known situations nor in evidence that is made from the types alone."""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.unread import unread
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.runbooks.every import Situation, situations
from tests.runbooks.test_confirmed import sure, thing
from tests.runbooks.test_never_raises import EVERY, MANY, Maker, Nothing, pool
from tests.runbooks.test_never_raises import put as changed
from tests.runbooks.transplant import Found, own, put

SAMPLE = MANY  # fields that are taken away in the situations of a runbook; in the soak each one
LEAST = 280  # causes that some situation confirms; fewer would hide what is not tried
GIVEN = {"ray-job": ("nodes-missing",)}  # of made evidence: what the fleet file expects may be what no node has, and it is no reading

NONE_IS_AN_ANSWER = {  # fields whose silence says that there is none, and without which a situation confirms something else
    "distributed-setup": "launch.batch nodes.facts.launchers.launch.script",
    "ssh-auth-failure": "wire.command_says far.nologin",
    "checkpoint-fallback": "tiers.space.error",
    "container-death": "wanted.ray_ip host.engine_unit host.engine_unit.entered_at host.engine_unit.left_at supervisors.left_at "
                       "container.error",
    "ray-job": "head.gcs.pid job.error_type",
    "zombie-gpu": "processes.job processes.parent_command kernel.xid processes.cgroup",
    "stale-rendezvous": "run runs.first.rendezvous runs.second.rendezvous runs.first.state runs.second.state nodes.facts.reach.error "
                        "saved.refusal nodes.facts.agents.launch.endpoint nodes.facts.agents.launch.master_addr nodes.facts.workers.run_id",
    "stuck-spawning": "row.pod_id each.row.pod_id workers.pod_id row.heartbeat pod.pod.stop stock.here stock.in_cloud",
}  # fmt: skip


@cache
def well(runbook: str) -> tuple[Found, ...]:
    """The situations in which nothing is wrong."""
    nobody = Cause(slug="nobody", certainty=Certainty.POSSIBLE, subject="", evidence=("all is well",))
    return tuple(Found(s, nobody) for s in situations() if s.runbook == runbook and s.judge().state is State.HEALTHY)


@cache
def ordinary(runbook: str, group: str) -> tuple[Found, ...]:
    """One such situation for each thing that these readings say where all is well."""
    said: dict[str, Found] = {}
    for found in well(runbook):
        said.setdefault(repr([x.reading for path in group.split(" or ") for x in own(found.case.evidence, path, "")]), found)
    return tuple(said.values())


def decided(case: Situation, cause: Cause) -> bool:
    """Whether a reading that it cites, or whose silence is the symptom, takes it away where that is as in a situation that is well."""
    known = load_runbook(case.runbook).causes[cause.slug]
    silent = [x.path for x in unread(case.evidence)]
    for group in dict.fromkeys((*known.rests_on, *silent, *known.excluded_by.values())):
        for one in ordinary(case.runbook, group):
            evidence = put(Found(case, cause), one, [group])
            if evidence is not None and thing(cause) not in sure(case.judge(evidence)):
                return True
    return False


@cache
def confirmed(runbook: str) -> tuple[tuple[Situation, Cause], ...]:
    """Every cause that a situation of the runbook confirms, with the first such situation."""
    found: dict[str, tuple[Situation, Cause]] = {}
    for case in (s for s in situations() if s.runbook == runbook):
        for cause in sure(case.judge()).values():
            found.setdefault(cause.slug, (case, cause))
    return tuple(found.values())


@pytest.mark.parametrize("runbook", runbook_slugs())
def test_what_is_confirmed_is_decided_by_a_reading_that_it_rests_on(runbook: str) -> None:
    assert [f"{cause.slug} in {case.title!r}" for case, cause in confirmed(runbook) if not decided(case, cause)] == []


def test_enough_is_confirmed_to_mean_anything() -> None:
    assert sum(len(confirmed(runbook)) for runbook in runbook_slugs()) >= LEAST


class Deaf(Situation):
    """Judged as before, whatever is read: a branch that confirms by default."""

    def judge(self, evidence: BaseModel | None = None) -> Diagnosis:
        return Situation(*self).judge(self.evidence)


def test_a_default_branch_is_found() -> None:
    case, cause = next(x for x in confirmed("host-limits") if x[1].slug == "fd-limit")
    assert decided(case, cause)
    assert not decided(Deaf(*case), cause)


def unsaid(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each field that need not be given and says nothing by its default (None or no text), as in a record that leaves it out."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            if not field.is_required() and field.default in (None, "") and inner != field.default:
                yield (*path, name), field.default
            yield from unsaid(inner, (*path, name))
    elif isinstance(value, tuple | Mapping):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from unsaid(item, (*path, key))


def slugs(found: Diagnosis) -> set[str]:
    return {c.slug for c in found.causes if c.certainty is Certainty.CONFIRMED}


def judged(case: Situation, evidence: BaseModel) -> Diagnosis | None:
    """None where the model itself refuses that evidence: it was never read."""
    try:
        return case.judge(type(evidence).model_validate(evidence.model_dump(warnings=False)))
    except ValidationError:
        return None


def plain(path: tuple[Any, ...]) -> str:
    """As NONE_IS_AN_ANSWER names it: without the numbers and keys of a list's items and without what a reading wraps."""
    return ".".join(x for x in path if isinstance(x, str) and x != "value")


@pytest.mark.parametrize("most", [pytest.param(SAMPLE, id="a sample"), EVERY])
@pytest.mark.parametrize("runbook", runbook_slugs())
def test_what_says_less_confirms_nothing_new(runbook: str, most: int | None) -> None:
    chosen, wrong = random.Random(runbook), set()
    worlds = [s for s in situations() if s.runbook == runbook]
    known = NONE_IS_AN_ANSWER.get(runbook, "").split()
    for case in worlds:
        before, found = slugs(case.judge()), [x for x in unsaid(case.evidence) if plain(x[0]) not in known]
        for path, new in found if most is None else chosen.sample(found, min(len(found), max(1, most // len(worlds)))):
            after = judged(case, changed(case.evidence, path, new))
            wrong |= {f"{slug} without {plain(path)} in {case.title!r}" for slug in (slugs(after) - before if after else ())}
    assert wrong == set()


def test_no_field_is_named_in_vain() -> None:
    """Each is one that a situation has."""
    has: dict[str, set[str]] = {}
    for case in situations():
        has.setdefault(case.runbook, set()).update(plain(path) for path, _ in unsaid(case.evidence))
    assert {(r, n) for r, names in NONE_IS_AN_ANSWER.items() for n in names.split() if n not in has[r]} == set()


@pytest.mark.parametrize("runbook", runbook_slugs())
def test_what_is_confirmed_of_made_evidence_is_decided(runbook: str) -> None:
    kind = import_module(f"runbooks.{folder_of(runbook)}.evidence").Evidence
    limits, wrong = load_runbook(runbook).limit_values(), []
    for seed in range(MANY // 3):
        try:
            evidence = Maker(random.Random(f"default {runbook} {seed}"), pool(runbook)).model(kind, 0)
        except Nothing:
            continue
        case = Situation(runbook, f"seed {seed}", evidence, limits)
        mine = [c for c in sure(case.judge(evidence)).values() if c.slug not in GIVEN.get(runbook, ())]
        wrong += [f"{c.slug}, seed {seed}" for c in mine if not decided(case, c)]
    assert wrong == []
