"""Every refusal has a code: of the engine, of an action, and of a probe on a node."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.refusal import TABLE, RefusalCode
from tests.support.sent import Sent

ROOT = Path(__file__).parents[1]
CODES = {c.value for c in RefusalCode}
ROOMS = ("flows", "actions", "probes")
PLACES = {
    "flows": ("flows/**/*.py",),
    "actions": ("tasks/*/act*.py", "tasks/remote/changing.py"),
    "probes": ("tasks/*/probes/*.py",),
    "tasks": ("tasks/**/*.py",),
}


def files(room: str) -> list[Path]:
    return sorted(p for place in PLACES[room] for p in ROOT.glob(place))


def nodes(room: str) -> Iterator[tuple[str, ast.AST]]:
    for path in files(room):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node


def test_one_exception_on_our_side_and_one_in_the_probes() -> None:
    made = [
        (where.partition(":")[0], node.name)
        for room in ("flows", "tasks")
        for where, node in nodes(room)
        if isinstance(node, ast.ClassDef) and {"ActionRefused", "Refused", "Exception"} & {ast.unparse(b) for b in node.bases}
    ]
    refusing = [m for m in made if any(w in m[1].lower() for w in ("refus", "guard", "lock", "busy", "frozen", "saidno", "changed"))]
    assert sorted(refusing) == [("tasks/context.py", "ActionRefused"), ("tasks/remote/probes/refused.py", "Refused")]


@pytest.mark.parametrize("room", ROOMS)
def test_whoever_refuses_names_a_code_of_the_table(room: str) -> None:
    calls = [(w, n) for w,
        n in nodes(room) if isinstance(n, ast.Call) and ast.unparse(n.func) in ("ActionRefused", "Refused", "Refusal", "_no")]
    wrong = [where for where, call in calls if not named(call)]
    assert len(calls) > 15, room
    assert wrong == []


def named(call: ast.Call) -> bool:
    """Its code is one of the table, or that of another refusal."""
    code = next((k.value for k in call.keywords if k.arg == "code"), call.args[0] if call.args else None)
    if isinstance(code, ast.Constant):
        return code.value in CODES
    text = ast.unparse(code) if code else ""
    return text in {f"RefusalCode.{c.name}" for c in RefusalCode} or text in ("code", "e.code", "error.code",
        "RefusalCode(str(got['code']))")


def test_whatever_a_probe_answers_with_refused_has_a_code() -> None:
    found = 0
    for where, node in nodes("probes"):
        if not isinstance(node, ast.Dict):
            continue
        keys = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)}
        if "refused" not in keys or where.startswith("tasks/host/probes/host_limits.py"):
            continue  # of a limit of the system: how often it refused
        found += 1
        assert "code" in keys, where
        assert not isinstance(keys["code"], ast.Constant) or keys["code"].value in CODES, where
    assert found > 15


def test_every_code_is_used() -> None:
    text = "".join(p.read_text(encoding="utf-8") for room in ROOMS for p in files(room))
    assert [c for c in RefusalCode if f"RefusalCode.{c.name}" not in text and f'"{c}"' not in text] == []
    assert set(TABLE) == set(RefusalCode)


def test_a_probe_answers_with_its_code() -> None:
    """As it is sent to a node: one program."""
    asked = Sent("refused")
    refused, refusal = asked["Refused"], asked["refusal"]
    assert refusal(refused("in-use", "pid 7 has it open")) == {"refused": "pid 7 has it open", "code": "in-use"}
    assert json.dumps(
        refusal(OSError(5, "I/O error"))) == '{"refused": "[Errno 5] I/O error", "code": "cannot-check"}'
