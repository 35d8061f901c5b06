"""A container that was killed, under the policies that we ship: what was automatic by a recreation stays so, by the milder start."""

import re
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from flows.engine.actions import risks
from flows.engine.gate import Decision, Gate, decide
from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence
from runbooks.core.knowledge import load_runbook
from runbooks.core.policy import Mode, Policy
from runbooks.core.refusal import RefusalCode

ROOT = Path(__file__).parents[2]
BASE = ROOT / "tests/runbooks/container/base.yaml"  # killed from outside, after more than an hour
AUTO = {"mode": "auto"}


def example() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deployments/policy.example.yaml").read_text(encoding="utf-8"))
    return found


def guide() -> dict[str, Any]:
    """The policy in the runbook's guide."""
    text = (ROOT / "runbooks/container/guide.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^    mode: auto\n(?:    .*\n)+", text, re.M)
    found: dict[str, Any] = yaml.safe_load(dedent(block))
    return found


def gate(policy: dict[str, Any], choice: str = "") -> Gate:
    evidence = Evidence.model_validate(yaml.safe_load(BASE.read_text(encoding="utf-8")))
    found = diagnose(evidence, Limits(**load_runbook("container-death").limit_values()))
    return decide(found, Mode.AUTO, Policy.model_validate(policy), risks(), (), datetime.now(UTC), "", choice)


@pytest.mark.parametrize("policy", [example(), guide()], ids=["policy.example.yaml", "guide.md"])
def test_what_names_a_recreation_names_a_start_with_the_same_mode(policy: dict[str, Any]) -> None:
    kinds = policy["kinds"]
    assert kinds["start-container"]["mode"] == kinds["recreate-container"]["mode"]


def test_under_the_policy_of_the_guide_it_is_started_by_itself() -> None:
    found = gate(guide())
    assert (found.decision, [p.name for p in found.plans]) == (Decision.ACT, ["start it again", "recreate"])


def test_where_only_a_recreation_is_automatic_the_question_says_which_kind_is_missing() -> None:
    found = gate({"mode": "auto", "kinds": {"recreate-container": AUTO}})
    assert found.decision is Decision.ASK
    assert [(w.code, "start-container" in w.why) for w in found.why] == [(RefusalCode.POLICY, True)]


def test_a_policy_that_bars_the_start_has_it_recreated_as_before() -> None:
    found = gate({"mode": "auto", "kinds": {"recreate-container": AUTO, "start-container": {"mode": "diagnose"}}})
    assert (found.decision, [p.name for p in found.plans]) == (Decision.ACT, ["recreate"])


def test_a_recreation_that_was_asked_for_by_name_is_what_is_done() -> None:
    found = gate({"mode": "auto", "kinds": {"recreate-container": AUTO}}, choice="recreate")
    assert (found.decision, found.plans[0].name) == (Decision.ACT, "recreate")
