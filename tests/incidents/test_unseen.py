"""Public incidents that nobody here had seen (unseen.yaml): each says today what it is written down with."""

from pathlib import Path
from typing import Any

import pytest

from tests.incidents.unseen import ALL, came, judge, outside


def marked(x: dict[str, Any]) -> Any:
    """Known from the moment that a judge is mended for it."""
    fields = {"came": x["came"], "first": x["first"], "known": x.get("mended", False), "fed": x.get("fed", "evidence")}
    told = {"source": x["source"], "runbook": x["runbook"], "said": x.get("said", ""), "round": x.get("round", 1)}
    told |= {"outside": x.get("outside", ""), "first_outside": x.get("first_outside", "")}
    return pytest.param(x, id=x["id"], marks=pytest.mark.incident(x["id"], **fields, **told))


@pytest.mark.parametrize("case", [marked(x) for x in ALL])
def test_an_incident_that_nobody_had_seen(case: dict[str, Any], tmp_path: Path) -> None:
    found = judge(case, tmp_path)
    assert came(case, found) == case["came"], found.model_dump_json(indent=1)
    assert outside(case, found) == case.get("outside", ""), "counted as wrong where it is counted strictly"


def test_each_is_written_down_whole() -> None:
    needed = {"id", "runbook", "source", "seen", "was", "by", "shown", "added", "given", "answer", "first", "came"}
    assert [x["id"] for x in ALL if needed - set(x)] == []
    assert len({x["source"] for x in ALL}) == len(ALL)
    assert [x["id"] for x in ALL if x.get("first_outside") and x["first"] != "open"] == []
    assert [x["id"] for x in ALL if x["first"] != "right" and not x.get("said")] == [], "what it said, where it was not right"
