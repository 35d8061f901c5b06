"""A container that was killed, under the policies that we ship: what was automatic by a recreation stays so, by the milder start."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.engine.actions import risks
from flows.engine.gate import Decision, Gate, PastAction, decide
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
    (block,) = re.findall(r"^```yaml\n(mode: auto\n.*?)^```$", text, re.M | re.S)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def gate(policy: dict[str, Any], choice: str = "", history: tuple[PastAction, ...] = ()) -> Gate:
    evidence = Evidence.model_validate(yaml.safe_load(BASE.read_text(encoding="utf-8")))
    found = diagnose(evidence, Limits(**load_runbook("container-death").limit_values()))
    return decide(found, Mode.AUTO, Policy.model_validate(policy), risks(), history, datetime.now(UTC), "", choice)


@pytest.mark.parametrize("policy", [example(), guide()], ids=["policy.example.yaml", "guide.md"])
def test_what_names_a_recreation_names_a_start_with_the_same_mode(policy: dict[str, Any]) -> None:
    kinds = policy["kinds"]
    assert kinds["start-container"]["mode"] == kinds["recreate-container"]["mode"]


def test_one_container_is_started_so_often_and_then_a_person_is_asked() -> None:
    """By the engine's own record: an engine that was restarted has forgotten earlier deaths of a container that kept its id."""
    most = load_runbook("container-death").limit_values()["deaths_to_escalate"]

    def after(times: int, name: str = "ray_docker") -> Gate:
        at = [datetime.now(UTC) - timedelta(minutes=10 * (n + 1)) for n in range(times)]
        done = {"owner": "node-a", "kinds": ("start-container",), "causes": ("killed-from-outside",), "verified": "fixed", "of": (name,)}
        return gate(guide(), history=tuple(PastAction.model_validate({**done, "started_at": x}) for x in at))

    assert after(int(most) - 1).decision is Decision.ACT
    asked = after(int(most))
    assert (asked.decision, [w.code for w in asked.why]) == (Decision.ASK, [RefusalCode.ATTEMPTS_SPENT])
    assert after(int(most), "another").decision is Decision.ACT
    assert example()["kinds"]["start-container"]["of_each"] == guide()["kinds"]["start-container"]["of_each"] == most


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
