"""A look at a target is told in the same words whoever asks for it: the engine, the sweep, or a run without a server."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from deployments.cli.run_offline import run_offline
from flows import specs
from flows.config import load_fleet
from flows.sweep.sweeping import Sweep, _all
from tasks.transport.open import HostPool
from tests.support import toy
from tests.support.engine_rig import REPO, Rig

SECRET = "hf_" + "aQ7" * 12
SAME = ("headline", "outcome", "diagnosis", "evidence", "limits", "risks", "title", "target", "fleet")


def everyone(rig: Rig, tmp_path: Path, m: pytest.MonkeyPatch, **facts: Any) -> list[dict[str, Any]]:
    """The report of the same look: by a run of the engine, by a sweep, and without a server."""
    w = rig.world(**facts)
    w.run("diagnose")
    (by_engine,) = w.reports()
    m.setattr(toy, "_LOOKS", {})
    spec = specs.load_spec("zombie-gpu")
    fleet = load_fleet(str(w.fleet))
    with HostPool() as pool:
        (found,) = _all(Sweep(fleet, ("zombie-gpu",), tmp_path, "a-run", "sweep"), w.name, "zombie-gpu", pool)
    by_sweep = json.loads(Path(found.report).with_suffix(".json").read_text())
    toy._LOOKS.clear()
    alone, _ = run_offline(spec, fleet, w.name, tmp_path)
    return [by_engine, by_sweep, alone.model_dump(mode="json")]


def said(report: dict[str, Any]) -> str:
    """What is the same in all three."""
    kept = {k: report[k] for k in SAME}
    kept["evidence"] = {k: v for k, v in kept["evidence"].items() if k != "taken_at"}
    own = re.sub(r"(<secret:[^:>]+):[0-9a-f]{8}>", r"\1>", json.dumps(kept, sort_keys=True))  # each process has marks of its own
    return re.sub(r"\S*/gpu-runbooks-fault-[\w-]+\.txt", "a file of its own", own)


@pytest.mark.parametrize(
    ("facts", "headline"),
    [
        ({"cut_at_look": 1}, "could not be read: unreachable"),
        ({"raises": "chain", "raised": SECRET}, "the run itself failed: RuntimeError: unexpected answer: <secret:"),
        ({"sick": True, "identity": f"the one with {SECRET}"}, "is stuck"),
    ],
    ids=["the link is cut", "the reader fails", "a secret was read"],
)
def test_the_same_words_on_all_paths(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], headline: str
) -> None:
    reports = everyone(rig, tmp_path, monkeypatch, **facts)
    assert all(headline in r["headline"] for r in reports), [r["headline"] for r in reports]
    assert [SECRET in json.dumps(r) for r in reports] == [False] * 3
    by_engine, by_sweep, alone = map(said, reports)
    assert by_engine == by_sweep == alone


def test_one_place_reads_judges_and_reports() -> None:
    """Nobody else calls a runbook's `gather` and `diagnose`, makes a Report, or a Context for a look."""
    found: dict[str, set[str]] = {}
    for path in [p for room in ("flows", "deployments") for p in (REPO / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            own = name.endswith(("spec.gather", "spec.diagnose")) or re.fullmatch(r"(gather|judge)_\w+", name)
            if (own and name != "gather_board") or name in ("Report", "earlier_evidence"):
                found.setdefault(name.rpartition(".")[2], set()).add(path.name)
    assert found == {what: {"observe.py"} for what in ("gather", "diagnose", "Report", "earlier_evidence")}
