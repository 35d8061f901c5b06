"""Every situation file of this folder: evidence = base.yaml with its changes; the judgment must be the expected one."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.ray.diagnose import diagnose
from runbooks.ray.evidence import Evidence
from runbooks.ray.limits import Limits
from tests.support.situations import merge
from tests.support.yaml_file import read_yaml

HERE = Path(__file__).parent
FILES = sorted(p for p in HERE.glob("*.yaml") if p.name != "base.yaml")
BASE = read_yaml(HERE / "base.yaml")


@cache
def judged(path: Path) -> tuple[dict[str, Any], Diagnosis]:
    situation = read_yaml(path)
    evidence = Evidence.model_validate(merge(BASE, situation["change"]))
    limits = Limits(**load_runbook("ray-job").limit_values(situation.get("limits")))
    return situation["expect"], diagnose(evidence, limits)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_situation(path: Path) -> None:
    expect, found = judged(path)
    for certainty in ("confirmed", "likely", "possible"):
        slugs = [c.slug for c in found.causes if c.certainty == certainty]
        assert slugs == expect.get(certainty, []), found
    assert found.state == expect["state"]
    assert [p.name for p in found.plans] == expect["plans"]
    if "continued" in expect:
        assert [p["pid"] for p in found.plans[0].steps[0].args["processes"]] == expect["continued"]
    for words in expect.get("evidence", ()):
        assert any(words in line for c in found.causes for line in c.evidence), found.causes
    for words in expect.get("do_now", ()):
        assert any(words in line for line in found.do_now), found.do_now
    for words in expect.get("unknowns", ()):
        assert words in found.unknowns
    for words in expect.get("must_not", ()):
        assert any(words in line for line in found.must_not), found.must_not
    assert found.must_not or found.state in ("not-applicable",)
    assert all(c.evidence for c in found.causes)


def test_every_cause_has_a_situation() -> None:
    seen = {c.slug for path in FILES for c in judged(path)[1].causes}
    assert seen == set(load_runbook("ray-job").causes)


@pytest.mark.parametrize(("free", "told"), [(0, True), (1 << 40, False)])
def test_a_full_disk_of_a_node_is_told(free: int, told: bool) -> None:
    """With the largest log that was seen there; a disk with room is not."""
    log = {"node": "a", "path": "/tmp/ray/session_latest/logs/gcs_server.out", "size_bytes": 150 << 30, "age_s": 1.0}
    node = {"node": "a", "ip": "10.0.0.1", "window_s": 2, "disk_free_bytes": free, "logs": [log]}
    evidence = Evidence.model_validate(merge(BASE, {"node_logs": [{"kind": "known", "value": node}]}))
    found = diagnose(evidence, Limits(**load_runbook("ray-job").limit_values()))
    issues = [f.issue for f in found.findings if "temp dir has" in f.issue]
    assert bool(issues) is told
    assert all("gcs_server.out with" in x for x in issues)


def test_a_diagnosis_survives_json() -> None:
    evidence = Evidence.model_validate(BASE)
    assert Evidence.model_validate_json(evidence.model_dump_json()) == evidence
