"""Twins of the incidents in twins.yaml: the fault taken out, or the tempting wrong answer made true. And every incident has one."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.verdict import Certainty, Diagnosis
from tests.incidents import test_neighbours as neighbours
from tests.support.yaml_file import read_yaml

HERE = Path(__file__).parent
ALL: list[dict[str, Any]] = read_yaml(HERE / "twins.yaml")


def params() -> Iterator[Any]:
    for case in ALL:
        for twin in case["twins"]:
            mark = pytest.mark.incident(case["id"], came="right", fed="evidence", known=True, twin=twin["what"])
            yield pytest.param(case, twin, id=f"{case['id']}: {twin['what']}", marks=mark)


def judge(case: dict[str, Any], given: dict[str, Any], place: Path) -> Diagnosis:
    return neighbours.judge({"runbook": case["runbook"], "given": given}, place)


def standing(found: Diagnosis) -> list[str]:
    return [c.slug for c in found.causes if c.certainty is not Certainty.RULED_OUT]


@pytest.mark.parametrize(("case", "twin"), list(params()))
def test_a_twin_is_judged_in_another_way(case: dict[str, Any], twin: dict[str, Any], tmp_path: Path) -> None:
    assert case["cause"] in standing(judge(case, case["given"], tmp_path)), "the incident itself"
    found = judge(case, twin["given"], tmp_path)
    assert case["cause"] not in standing(found)
    assert twin["first"] in (*standing(found)[:1], found.state), found.model_dump_json(indent=1)


def marks() -> Iterator[tuple[str, bool]]:
    """(id, whether it is a twin) of every mark in these files that names its incident."""
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.incident" and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value), any(k.arg == "twin" for k in node.keywords)
    yield from ((case["id"], True) for case in ALL)


def test_every_incident_has_a_twin() -> None:
    """All but those of neighbours.yaml and unseen.yaml, which were written down for their first sight."""
    found = list(marks())
    ids, twins = {i for i, _ in found}, {i for i, twin in found if twin}
    assert len(ids) >= 70
    assert sorted(ids - twins) == []
    assert {case["id"] for case in ALL} <= {i for i, twin in found if not twin}, "a twin of nothing"
