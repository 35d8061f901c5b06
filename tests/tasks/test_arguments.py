"""What acts gets a model; what does not fit is refused with a code before anything is touched, here and on the node."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.args.nodes import QuarantineNode
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context
from tasks.gpu.act_quarantine import quarantine_node
from tasks.remote.changing import change, wants_of
from tasks.remote.probes.wants import misfit
from tasks.remote.program import program
from tasks.transport.local import LocalHost
from tests.support.arguments import sample

SENT = {  # probe -> kinds whose arguments it is sent, besides what the action adds
    "terminate": ("terminate-processes",),
    "go_on": ("continue-processes",),
    "start_job": ("restart-job",),
    "reset_gpu": ("reset-gpu",),
    "quarantine": ("quarantine-node",),
    "ray_stop_job": ("stop-ray-job",),
    "recreate": ("recreate-container",),
    "start_container": ("start-container",),
    "restart_application": ("restart-application",),
    "remove_kept": ("remove-kept-container",),
    "remount": ("remount-fuse",),
    "start_engine": ("start-engine",),
    "stop_process": ("stop-supervisor",),
    "stop_unit": ("stop-unit",),
    "rdzv_clear": ("delete-run-keys",),
    "rdzv_restore": ("restore-run-keys",),
    "rdzv_defrag": ("defragment-etcd",),
    "pod_start_worker": ("start-worker", "start-worker-unverified"),
    "ssh_add_key": ("add-public-key",),
    "ssh_fix_path": ("repair-ssh-path",),
}
CHECKPOINTS = {  # what the one program on checkpoints does -> kind
    "copy": "copy-checkpoint", "download": "copy-checkpoint", "upload": "copy-checkpoint", "point": "repoint-latest",
    "quarantine": "quarantine-checkpoint", "prune": "prune-checkpoints", "finish": "finish-deletion",
    "put-back": "put-back-checkpoint", "mkdir": "create-checkpoint-folder", "mode": "restore-folder-mode",
}  # fmt: skip
TASKS = Path(__file__).parents[2] / "tasks"
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
    for kind in SENT[probe]:
        _wanted_as_given(kind, wants_of(program(probe)), {})


@pytest.mark.parametrize("do", sorted(CHECKPOINTS))
def test_what_is_done_to_a_checkpoint_decides_what_is_wanted(do: str) -> None:
    wants = wants_of(program("ckpt_act"))
    assert set(wants["do"]) == set(CHECKPOINTS)
    _wanted_as_given(CHECKPOINTS[do], wants["do"][do], {"do": do}, wants)


def _wanted_as_given(kind: str, wants: dict[str, str], chosen: dict[str, str], whole: dict[str, Any] | None = None) -> None:
    """An action sends its arguments by their own names, each of the type that the probe wants."""
    own = {name: value for name, value in sample(kind).items() if name in wants}
    assert own, "none of its arguments has the name that the probe wants"
    assert misfit(own, {name: wants[name] for name in own}) == ""
    for name in own:
        faults = misfit(chosen | own | {name: object()}, whole or wants).split("; ")
        assert [f for f in faults if not f.endswith(": missing")] == [f"{name}: should be {wants[name].rstrip('?')}, is object"]


def test_every_program_that_changes_something_has_a_table() -> None:
    found = set()
    for path in TASKS.glob("*/act*.py"):
        for call in [c for c in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(c, ast.Call)]:
            if ast.unparse(call.func) in ("change", "_through"):
                found |= {a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    assert found == {*SENT, "ckpt_act"}
    assert [p for p in sorted({*SENT, "run_command"}) if not wants_of(program(p))] == []


def test_kinds_of_value() -> None:
    wants = {"i": "int", "n": "number", "b": "bool", "s": "str?", "l": "list", "d": "dict"}
    assert misfit({"i": 1, "n": 1.5, "b": True, "l": [], "d": {}}, wants) == ""
    assert misfit({"i": True, "n": "1", "b": 1, "s": 1, "l": {}, "d": None}, wants) == (
        "b: should be bool, is int; d: should be dict, is NoneType; i: should be int, is bool; l: should be list, is dict; "
        "n: should be number, is str; s: should be str, is int"
    )


@pytest.mark.parametrize("given", [{}, {"do": "no-such"}, {"do": None}, {"do": ["copy"]}])
def test_a_choice_that_a_probe_does_not_know(given: dict[str, Any]) -> None:
    wants = {"do": {"go": {"to": "str"}, "stop": {}}}
    assert misfit(given, wants) == ("do: should be one of go, stop" if given else "do: missing")
    assert (misfit({"do": "stop"}, wants), misfit({"do": "go", "to": "x"}, wants)) == ("", "")
    assert misfit({"do": "go"}, wants) == "to: missing"
