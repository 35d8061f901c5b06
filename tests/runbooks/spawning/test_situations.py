"""Every situation: four views in, causes, acts and warnings out."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from tests.runbooks.spawning.build import judge
from tests.support.yaml_file import read_yaml

ALL = read_yaml(Path(__file__).parent / "situations.yaml")


@pytest.mark.parametrize("doc", ALL, ids=lambda d: d["title"])
def test_situation(doc: dict[str, Any]) -> None:
    """One situation."""
    d = judge(doc["given"])
    shown = d.model_dump_json(indent=1)
    assert d.state == doc["state"], shown
    assert [f"{c.slug} {c.certainty}" for c in d.causes] == doc.get("causes", []), shown
    acts = [s.kind for p in d.plans for s in p.steps]
    assert acts == doc.get("acts", acts), shown
    assert doc.get("must_not", "") in " | ".join(d.must_not), shown
    assert doc.get("do_now", "") in " | ".join(d.do_now), shown
    assert d.must_not
    known = load_runbook("stuck-spawning").causes
    assert all(c.slug in known and c.evidence and known[c.slug].benign == c.benign for c in d.causes)


def test_every_cause_has_a_situation() -> None:
    """Each cause of runbook.yaml is expected at least once."""
    seen = {line.split(" ")[0] for doc in ALL for line in doc.get("causes", [])}
    assert set(load_runbook("stuck-spawning").causes) - seen == set()


def test_cost_is_shown_while_waiting() -> None:
    assert any("0.60 an hour, 0.15 since" in x for x in judge({}).waiting_costs)


AROUND = [doc for doc in ALL if doc["given"].get("each") == []]


@pytest.mark.parametrize("doc", AROUND, ids=lambda d: d["title"])
def test_the_same_world_is_judged_alike_from_one_worker_and_from_all(doc: dict[str, Any]) -> None:
    """Whatever concerns all of them is named with the same certainty in a run on one worker that is well."""
    given = {k: x for k, x in doc["given"].items() if k != "each"}
    if "kind" in str(given.get("workers", "")):
        return  # there is no worker to ask about
    all_pods = given.get("all_pods", [])
    ended = given.get("queued") and not given.get("others")  # a living worker would take what waits
    mine = all_pods if ended or isinstance(all_pods, dict) else [*all_pods, {"id": "p1", "phase": "running"}]
    one = judge({**given, "all_pods": mine, "row": {"status": "terminated"} if ended else {}})
    everybody = {(c.slug, c.certainty, c.subject) for c in judge(doc["given"]).causes}
    theirs = {(c.slug, c.certainty, c.subject) for c in one.causes}
    assert {slug for slug, _, _ in everybody - theirs} <= {"heartbeat-old"}, "only what is wrong with another worker itself"
