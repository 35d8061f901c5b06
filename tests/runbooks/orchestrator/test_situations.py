"""Every situation of fleet-sync: rows and pods in, causes, acts and warnings out; and no list that is not whole decides."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from tests.runbooks.orchestrator.build import judge
from tests.support.yaml_file import read_yaml

ALL: list[dict[str, Any]] = read_yaml(Path(__file__).parent / "situations.yaml")
LISTS = ("pods", "rows", "pods_again", "rows_again")
LOST = {"kind": "unknown", "reason": "failed", "detail": "HTTP 500"}


@pytest.mark.parametrize("doc", ALL, ids=lambda d: d["title"])
def test_situation(doc: dict[str, Any]) -> None:
    d = judge(doc["given"])
    shown = d.model_dump_json(indent=1)
    assert d.state == doc["state"], shown
    assert [f"{c.slug} {c.certainty}" for c in d.causes] == doc.get("causes", []), shown
    assert [s.kind for p in d.plans for s in p.steps] == doc.get("acts", []), shown
    assert doc.get("must_not", "") in " | ".join(d.must_not), shown
    assert doc.get("do_now", "") in " | ".join(d.do_now), shown
    assert doc.get("costs", "") in " | ".join(d.waiting_costs), shown


def test_every_cause_has_a_situation() -> None:
    seen = {line.split(" ")[0] for doc in ALL for line in doc.get("causes", [])}
    assert seen == set(load_runbook("fleet-sync").causes)


def test_more_than_are_offered_at_once_are_said() -> None:
    rows = [{"id": f"gpu-{i}", "pod_id": f"p{i}"} for i in range(1, 30)]
    pods = [{"id": r["pod_id"], "name": r["id"]} for r in rows]
    d = judge({"rows": rows, "pods": [*pods, *({"id": f"q{i}", "name": f"gpu-q{i}"} for i in range(9))]})
    assert len(d.plans) == 5
    assert "4 more pods and rows have a plan" in " | ".join(d.do_now)
