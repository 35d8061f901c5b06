"""A fault of ours: exit code 6 for a run by hand, and a file with the traceback that is named; a nightly names it and goes on."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from httpx import ConnectError

from deployments.cli import run as run_online
from deployments.cli.main import main
from deployments.errors import FAULT
from flows import specs, store
from flows.engine.ends import RunFailed
from flows.engine.outcomes import failed_without_report
from flows.sweep import sweeping
from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet, Node
from runbooks.core.nightly import NightlyReport
from runbooks.core.outcome import Outcome
from runbooks.core.reading import UnknownReason
from runbooks.core.report import Report
from tasks.fault_file import FAULT_LABEL, fault_of
from tasks.transport.base import TransportError
from tests.support.engine_rig import REPO, Rig, World

FILE = re.compile(r"please report it with (\S+/gpu-runbooks-fault-\S+\.txt)")


def named(text: str) -> str:
    """What the one file says that the text names."""
    (path,) = set(FILE.findall(text))
    return Path(path).read_text()


def breaks(_context: Any) -> Any:
    """A `gather` that has a bug."""
    raise KeyError("container")


def test_a_run_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    whole = specs.load_spec("host-limits")
    monkeypatch.setitem(specs.SPECS, "host-limits", lambda: replace(whole, gather=breaks))
    argv = ["run", "host-limits", "local", "--no-server", "--out", str(tmp_path)]
    assert main(argv) == FAULT
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert "in breaks" in named(err)
    (page,) = tmp_path.rglob("2*.md")
    assert "in breaks" in named(page.read_text()), "the report names it, too"
    assert main([*argv, "--json"]) == FAULT
    report = Report.model_validate_json(capsys.readouterr().out)
    assert "KeyError" in named(report.diagnosis.unknowns[0])


@pytest.fixture
def broken(rig: Rig) -> World:
    return rig.world(raises="chain", raised="an answer that nobody expected")


def as_a_user(rig: Rig, *argv: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, which has the toy runbook."""
    env = os.environ | {"PYTHONPATH": f"{REPO / 'tests/faults/inject'}:{REPO}", "PREFECT_API_URL": rig.state.api}
    command = [sys.executable, "-m", "deployments.cli.main", *argv]
    return subprocess.run(command, env=env, cwd=REPO, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["for people", "as data"])
def test_a_run(rig: Rig, broken: World, words: tuple[str, ...]) -> None:
    done = as_a_user(rig, "run", "zombie-gpu", broken.name, "--fleet", str(broken.fleet), "--out", str(broken.out), *words)
    assert done.returncode == FAULT, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "unexpected answer: an answer that nobody expected" in named(done.stderr)
    (report,) = broken.reports()
    assert report["headline"].startswith("the run itself failed: RuntimeError")
    assert named(str(report["diagnosis"]["unknowns"])) == named(done.stderr)
    if words:
        facts = json.loads(done.stdout)
        assert (facts["outcome"], named(facts["fault"])) == ("cannot-tell", named(done.stderr))


def test_a_nightly_names_it_for_that_node_and_goes_on(rig: Rig, broken: World, tmp_path: Path) -> None:
    well = rig.world(sick=False)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump({"name": broken.name, "nodes": [{"name": w.name, "local": True} for w in (broken, well)]}))
    done = as_a_user(rig, "nightly", "--fleet", str(fleet), "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    report = NightlyReport.model_validate_json(Path(json.loads(done.stdout)["json"]).read_text())
    of = {r.node: r for r in report.results if r.runbook == "zombie-gpu"}
    assert (of[broken.name].outcome, of[well.name].outcome) == (Outcome.CANNOT_TELL, Outcome.HEALTHY)
    assert "in gather" in named("\n".join(report.not_read))
    assert len({r.runbook for r in report.results if r.node == broken.name}) > 1, "the other runbooks looked at it"


def test_a_fault_in_the_first_look_at_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sweeping, "read_basics", breaks)
    fleet = Fleet(nodes=(Node(name="a", local=True),))
    answer = sweeping.check_node.fn(sweeping.Sweep(fleet, ("host-limits",), tmp_path, "a-run", "sweep"), fleet.nodes[0])
    assert [r.outcome for r in answer.results] == [Outcome.CANNOT_TELL]
    assert "in breaks" in named(answer.unread[0])


def test_a_run_that_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its label names the file, and so does the command's last line."""
    labels: dict[str, str] = {}
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "label", lambda _run, found: labels.update(found))
    failure = failed_without_report("a-run", KeyError("container"))
    assert "KeyError" in named(labels[FAULT_LABEL])
    facts = {"run": "a-run", "outcome": None, "state": "Failed", "message": str(failure), "fault": labels[FAULT_LABEL]}
    assert run_online.finish(argparse.Namespace(json=True), facts) == FAULT
    out, err = capsys.readouterr()
    assert json.loads(out) == facts, "one document"
    assert "KeyError" in named(err)


def of_http(module: str) -> ConnectError:
    """As code of that module raises it."""
    with pytest.raises(ConnectError) as e:
        exec("raise ConnectError('x')", {"__name__": module, "ConnectError": ConnectError})  # noqa: S102
    return e.value


OTHERS: dict[str, Callable[[], BaseException]] = {
    "a file": lambda: ConfigError("x"), "the server": lambda: of_http("flows.store"), "Ctrl-C": KeyboardInterrupt,
    "a target": lambda: TransportError(UnknownReason.DENIED, "x"), "a disk": lambda: OSError(28, "No space left on device"),
}  # fmt: skip


@pytest.mark.parametrize("error", OTHERS.values(), ids=OTHERS)
def test_what_others_cause_is_no_fault_of_ours(error: Callable[[], BaseException]) -> None:
    assert fault_of(error()) == ""
    assert RunFailed("x").fault == ""


def test_an_answer_of_another_system_that_nobody_expects_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    assert "ConnectError" in named(fault_of(of_http("tasks.gpu.leader")))
