"""Each reading failed, cut or emptied, alone and in a thousand random combinations: no plan that the whole lists would not make."""

import random
from functools import cache
from itertools import product
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Diagnosis, State
from runbooks.orchestrator.diagnose import diagnose
from runbooks.orchestrator.evidence import Evidence
from runbooks.orchestrator.sides import Limits
from tests.runbooks.orchestrator.build import evidence
from tests.runbooks.orchestrator.test_situations import ALL

LISTS = ("pods", "rows", "pods_again", "rows_again")
READINGS = (*LISTS, "pods_by_id", "rows_by_id", "tasks")
ACTING = [doc for doc in ALL if doc.get("acts")]
LIMITS = Limits.model_validate(load_runbook("fleet-sync").limit_values())
REASONS = tuple(UnknownReason)


@cache
def true(title: str) -> Evidence:
    """The world as it is."""
    return evidence(next(doc["given"] for doc in ACTING if doc["title"] == title))


def names(d: Diagnosis) -> set[str]:
    return {p.name for p in d.plans}


def value(e: Evidence, name: str) -> Any:
    reading = getattr(e, name)
    assert isinstance(reading, Known)
    return reading.value


def spoiled(e: Evidence, **over: Any) -> Diagnosis:
    """The diagnosis of that world with other readings."""
    return diagnose(Evidence(**({name: getattr(e, name) for name in Evidence.model_fields} | over)), LIMITS)


def lost(reason: UnknownReason) -> Unknown:
    return Unknown(reason=reason, detail="lost by this test")


@pytest.mark.parametrize("title", [doc["title"] for doc in ACTING])
def test_each_reading_alone(title: str) -> None:
    e = true(title)
    for name, reason in product(READINGS, REASONS):
        d = spoiled(e, **{name: lost(reason)})
        assert d.state is not State.HEALTHY, (name, reason)
        assert names(d) < names(spoiled(e)) or name not in LISTS, (name, reason)
        assert not d.plans or name not in LISTS, (name, reason)
    for name in LISTS:
        whole = value(e, name)
        shorter: list[Any] = [(), *(whole[:i] + whole[i + 1 :] for i in range(len(whole)))]
        for short in shorter:
            d = spoiled(e, **{name: Known(value=short)})
            assert (d.state, d.plans) == (State.CANNOT_TELL, ()), (name, len(short))


@pytest.mark.parametrize("title", [doc["title"] for doc in ACTING])
def test_a_list_that_is_cut_alike_twice_makes_no_new_plan(title: str) -> None:
    """What it lacks is asked for by its id, and is there."""
    e = true(title)
    for side in ("pods", "rows"):
        whole = value(e, side)
        for i in range(len(whole)):
            short: Known[Any] = Known(value=whole[:i] + whole[i + 1 :])
            d = spoiled(e, **{side: short, f"{side}_again": short}, **asked(e, short.value, side))
            assert names(d) <= names(spoiled(e)), (side, i)


def asked(e: Evidence, short: Any, side: str) -> dict[str, Known[dict[str, str]]]:
    """By id, of what is not in the short list: as it is in truth."""
    pods = {p.id: p for p in value(e, "pods_again")}
    rows = {r.id: r for r in value(e, "rows_again")}
    here = {p.id for p in short} if side == "pods" else set(pods)
    there = {r.id for r in short} if side == "rows" else set(rows)
    gone = ("", "TERMINATED")
    states = {r.pod_id: pods[r.pod_id].status if r.pod_id in pods else "" for r in rows.values() if r.pod_id and r.pod_id not in here}
    return {
        "pods_by_id": Known(value={k: "" if v in gone else v for k, v in states.items()}),
        "rows_by_id": Known(value={p.name: rows[p.name].status if p.name in rows else "" for p in pods.values() if p.name not in there}),
    }


def test_a_thousand_combinations() -> None:
    chance = random.Random(19)
    for _ in range(1000):
        doc = chance.choice(ACTING)
        e = true(doc["title"])
        over: dict[str, Any] = {}
        for name in chance.sample(READINGS, chance.randint(1, len(READINGS))):
            whole = value(e, name)
            keep = chance.randint(0, max(0, len(whole) - 1))
            cut = dict(list(whole.items())[:keep]) if isinstance(whole, dict) else whole[:keep]
            over[name] = chance.choice([lost(chance.choice(REASONS)), Known(value=cut)])
        d = spoiled(e, **over)
        unread = any(isinstance(x, Unknown) for x in over.values())
        assert not (unread and d.state is State.HEALTHY), (doc["title"], over)
        bad = [x for x in LISTS if x in over and (isinstance(over[x], Unknown) or not over[x].value)]
        assert not (bad and (d.plans or d.state is not State.CANNOT_TELL)), (doc["title"], over)
        new = names(d) - names(spoiled(e))
        assert not new, (doc["title"], over, new)
