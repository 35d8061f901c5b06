"""What acts gets a model; what does not fit is refused with a code before anything is touched, here and on the node."""

import json
from pathlib import Path

import pytest

from runbooks.core.args.nodes import QuarantineNode
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context
from tasks.gpu.act_quarantine import quarantine_node
from tasks.remote.changing import change, wants_of
from tasks.remote.probe import probe_text
from tasks.remote.probes.wants import misfit
from tasks.transport.local import LocalHost
from tests.support.arguments import sample

SENT = {  # probe -> kinds whose arguments it is sent, besides what the action adds
    "terminate": ("terminate-processes",),
    "go_on": ("continue-processes",),
    "start_job": ("restart-job",),
    "reset_gpu": ("reset-gpu",),
    "quarantine": ("quarantine-node",),
    "ray_stop_job": ("stop-ray-job",),
}
CONTEXT = Context(fleet=Fleet(nodes=(Node(name="n", local=True),)), target="n", open_host=lambda _: LocalHost("n"))


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_LOCKS", str(tmp_path / "locks"))


def test_an_action_refuses_what_is_not_its_arguments(tmp_path: Path) -> None:
    mark = tmp_path / "mark.json"
    whole = QuarantineNode(node="n", reason="r", path=str(mark)).plain()
    step = Step(kind="quarantine-node", owner="n", args=whole, commands=(), effect="")
    for args in ({**whole, "path": None}, {**whole, "more": 1}, {k: v for k, v in whole.items() if k != "node"}):
        with pytest.raises(ActionRefused, match=r"^quarantine-node: (path|more|node): ") as caught:
            quarantine_node(step.model_copy(update={"args": args}), CONTEXT)
        assert caught.value.code is RefusalCode.BAD_ARGUMENTS
    assert not mark.exists()
    quarantine_node(step, CONTEXT)
    assert json.loads(mark.read_text())["node"] == "n"


@pytest.mark.parametrize(("name", "value"), [("argv", None), ("argv", "touch x"), ("argv", True), ("", "")])
def test_a_node_is_not_changed_by_a_probe_that_was_told_something_else(tmp_path: Path, name: str, value: object) -> None:
    """The probe's own table goes with it; the lock is not even taken."""
    ask: dict[str, object] = {"argv": ["touch", str(tmp_path / "touched")]} | {name: value}
    ask = ask if name else {}
    with pytest.raises(ActionRefused, match="run_command got other arguments than it needs: argv: ") as caught:
        change(CONTEXT, LocalHost("n"), "run_command", ask, 20)
    assert caught.value.code is RefusalCode.BAD_ARGUMENTS
    assert not (tmp_path / "touched").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("probe", sorted(SENT))
def test_a_probe_wants_the_arguments_of_its_action_and_each_as_its_type(probe: str) -> None:
    wants = wants_of(probe_text(probe))
    for kind in SENT[probe]:
        own = {name: value for name, value in sample(kind).items() if name in wants}
        assert own, "none of its arguments has the name that the probe wants"
        assert misfit(own, {name: wants[name] for name in own}) == ""
        for name in own:
            assert misfit(own | {name: object()}, wants).count(name) == 1


def test_kinds_of_value() -> None:
    wants = {"i": "int", "n": "number", "b": "bool", "s": "str?", "l": "list", "d": "dict"}
    assert misfit({"i": 1, "n": 1.5, "b": True, "l": [], "d": {}}, wants) == ""
    assert misfit({"i": True, "n": "1", "b": 1, "s": 1, "l": {}, "d": None}, wants) == (
        "b: should be bool, is int; d: should be dict, is NoneType; i: should be int, is bool; l: should be list, is dict; "
        "n: should be number, is str; s: should be str, is int"
    )
