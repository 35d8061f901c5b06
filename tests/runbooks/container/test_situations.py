"""Every situation file of this folder: evidence = base.yaml with its changes; the judgment must be the expected one."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from tests.support.situations import merge
from tests.support.yaml_file import read_yaml

HERE = Path(__file__).parent
FILES = sorted(p for p in HERE.glob("*.yaml") if p.name != "base.yaml")
BASE = read_yaml(HERE / "base.yaml")


@cache
def judged(path: Path) -> tuple[dict[str, Any], Diagnosis]:
    situation = read_yaml(path)
    evidence = Evidence.model_validate(merge(BASE, situation["change"]))
    limits = Limits(**load_runbook("container-death").limit_values(situation.get("limits")))
    return situation["expect"], diagnose(evidence, limits)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_situation(path: Path) -> None:
    expect, found = judged(path)
    for certainty in ("confirmed", "likely", "possible"):
        slugs = [c.slug for c in found.causes if c.certainty == certainty]
        assert slugs == expect.get(certainty, []), found
    assert found.state == expect["state"]
    assert [p.name for p in found.plans] == expect["plans"]
    if "knowingly" in expect:
        assert [p.name for p in found.knowingly] == [expect["knowingly"]]
        assert expect["despite"] in found.knowingly[0].despite
    if "steps" in expect:
        assert [s.kind for s in found.plans[0].steps] == expect["steps"]
    for words in expect.get("must_not", ()):
        assert any(words in line for line in found.must_not), found.must_not
    assert any(expect.get("finding", "") in f.issue for f in found.findings) or "finding" not in expect
    assert found.must_not or found.state in ("not-applicable",)
    assert all(c.evidence for c in found.causes)


def test_every_cause_has_a_situation() -> None:
    seen = {c.slug for path in FILES for c in judged(path)[1].causes}
    assert seen == set(load_runbook("container-death").causes)


def test_a_command_that_cannot_be_run_comes_before_the_loop_that_follows() -> None:
    assert judged(HERE / "exec-no-such-file.yaml")[1].causes[0].slug == "bad-command"
    assert judged(HERE / "restart-loop.yaml")[1].causes[0].slug == "too-many-deaths"


def test_a_diagnosis_survives_json() -> None:
    evidence = Evidence.model_validate(BASE)
    assert Evidence.model_validate_json(evidence.model_dump_json()) == evidence
