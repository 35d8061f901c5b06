"""A step's arguments are those of its kind: when it is made, claimed, carried out, and on the node."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows import store
from flows.engine.approval import DIGITS, asked_plans, plans_key
from flows.engine.lock import lock_all
from runbooks.core.args.table import ARGS, misfit
from runbooks.core.kinds import KINDS
from runbooks.core.plan import Plan, Step, plan_digest
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused
from tests.support.arguments import sample

GIVEN = {
    "boot_id": "b1", "processes": [{"pid": 460, "start_ticks": 9, "command": "python", "uid": 0}], "cgroup": "", "sid": 460,
    "gpu_uuids": [], "expect_freed_bytes": 0, "grace_s": 10,
}  # fmt: skip
STORED = [json.loads(line) for line in (Path(__file__).parent / "golden" / "stored_plans.jsonl").read_text("utf-8").splitlines()]


def step(kind: str, args: dict[str, Any]) -> Step:
    return Step(kind=kind, owner="node-a", args=args, commands=("kill 460",), effect="gone")


@pytest.mark.parametrize("kind", sorted(ARGS))
def test_each_argument_of_each_kind_is_required_named_and_of_its_type(kind: str) -> None:
    whole = sample(kind)
    assert step(kind, whole).args == whole
    assert ARGS[kind].model_validate(whole).plain() == whole, "what is sent on is what was stored"
    for name in whole:
        with pytest.raises(ValidationError, match=f"{kind}: {name}: field required"):
            step(kind, {k: v for k, v in whole.items() if k != name})
        with pytest.raises(ValidationError, match=f"{kind}: {name}[.:]"):
            step(kind, whole | {name: object()})
    with pytest.raises(ValidationError, match=f"{kind}: argv0: extra inputs are not permitted"):
        step(kind, whole | {"argv0": "x"})


@pytest.mark.parametrize("pid", [0, -1, True, "460", 460.0, None])
def test_a_pid_is_one_process(pid: object) -> None:
    """To the kernel 0 is the own group, -1 everything."""
    with pytest.raises(ValidationError, match=r"terminate-processes: processes\.0\.pid: "):
        step("terminate-processes", GIVEN | {"processes": [{"pid": pid, "start_ticks": 9, "command": "python", "uid": 0}]})


def test_what_is_said_of_arguments_holds_none_of_their_values() -> None:
    said = misfit("terminate-processes", GIVEN | {"cgroup": ["sk-secret"], "grace_s": "sk-secret", "sk": "sk-secret"})
    assert all(name in said for name in ("cgroup: ", "grace_s.", "sk: "))
    assert "sk-secret" not in said


def test_stored_steps_and_digests_stay_as_they_were() -> None:
    """Open approvals of the version before go on: a plan's digest is over what was stored then."""
    plan = Plan(name="p", steps=(step("terminate-processes", GIVEN),), for_causes=("c",))
    assert plan.digest == "fb1ec15081710446a4ed97cff497964a2caac4a99c053a2f57106b4ee52ae5d4"
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert step("terminate-processes", GIVEN).model_dump(mode="json")["args"] == GIVEN


def test_an_open_approval_of_any_kind_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions as they were stored before their arguments were typed: each is still shown, fits, and has the same digest."""
    for stored in STORED:
        key = f"{stored['digest'][:DIGITS]}-1"
        rows = {plans_key(key): json.dumps([stored["plan"]])}
        monkeypatch.setattr(store, "read_input", lambda _run, name, rows=rows: rows.get(name))
        digest = plan_digest((Plan.model_validate(stored["plan"]),))
        assert digest == stored["digest"]
        (plan,) = asked_plans("r", key)
        for one in plan.steps:
            assert misfit(one.kind, one.args) == ""
            assert one.typed(ARGS[one.kind]).plain() == one.args, "what is carried out is what was allowed"
    assert {s["kind"] for stored in STORED for s in stored["plan"]["steps"]} == set(ARGS)


def test_an_open_approval_whose_arguments_no_longer_fit_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run asks again when it goes on; whoever shows it does not fail."""
    plan = STORED[0]["plan"]
    less = plan | {"steps": [s | {"args": {}} for s in plan["steps"]]}
    monkeypatch.setattr(store, "read_input", lambda _run, _name: json.dumps([less]))
    assert asked_plans("r", f"{STORED[0]['digest'][:DIGITS]}-1") == ()


def test_a_step_whose_arguments_were_altered_is_not_claimed() -> None:
    """With a code, before the server is asked for anything."""
    whole = step("terminate-processes", GIVEN)
    plan = Plan(name="p", steps=(whole,), for_causes=("c",))
    altered = plan.model_copy(update={"steps": (whole.model_copy(update={"args": GIVEN | {"sid": "460"}}),)})
    with pytest.raises(ActionRefused, match="terminate-processes: sid: input should be a valid integer") as caught:
        lock_all(altered, {"runbook_run": "r"})
    assert caught.value.code is RefusalCode.BAD_ARGUMENTS


def test_a_kind_that_nobody_knows_takes_anything() -> None:
    """The gate refuses it, with a code of its own."""
    assert "no-such-kind" not in KINDS
    assert step("no-such-kind", {"x": 1}).args == {"x": 1}
