"""The command line without a server: quick, plain errors, exit codes, nothing lost when the disk is bad."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.cli import ending
from deployments.cli import list as cli_offline
from deployments.cli import main as cli
from deployments.cli.main import COMMANDS, main
from deployments.cli.parser import EXIT_CODES, build_parser
from deployments.errors import FAULT, NO_SERVER, NO_WORKER
from runbooks.core.knowledge import runbook_slugs
from runbooks.core.outcome import Outcome
from runbooks.core.report import Report
from runbooks.core.show import kept
from runbooks.core.unmark import plain
from tests.core.samples import report

ROOT = Path(__file__).parents[2]
GPU_CLI = [sys.executable, "-m", "deployments.cli.main"]


def call(*args: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*GPU_CLI, *args], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | env,
    )  # fmt: skip


def imports(*args: str) -> set[str]:
    """Top-level packages that the command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *GPU_CLI[1:], *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = (line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report file of this machine, made without a server."""
    return report_of_this_machine(tmp_path_factory.mktemp("saved"))


def report_of_this_machine(out: Path) -> Path:
    done = call("run", "zombie-gpu", "local", "--no-server", "--out", str(out))
    assert done.returncode in (0, 1, 3), done.stderr
    return next((out / "zombie-gpu" / "local").glob("2*.json"))


def test_help_list_and_replay_need_no_heavy_imports(saved: Path) -> None:
    heavy = {"prefect", "fabric", "paramiko", "httpx", "boto3", "jinja2"}
    assert not imports("--help") & (heavy | {"pydantic", "yaml"})
    assert not imports("list") & heavy
    assert not imports("replay", str(saved)) & heavy


def test_every_command_has_help_and_a_home() -> None:
    parser = build_parser()
    commands = next(a for a in parser._actions if a.dest == "command").choices
    assert isinstance(commands, dict)
    assert set(commands) == {*COMMANDS, "triage", "restore"}
    for name, sub in commands.items():
        assert name == "triage" or sub.format_help()


def test_list_shows_every_runbook() -> None:
    lines = call("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(runbook_slugs())
    assert [h["slug"] for h in json.loads(call("list", "--json").stdout)] == list(runbook_slugs())


def test_no_server_run_writes_a_report_and_changes_nothing(saved: Path) -> None:
    made = Report.model_validate_json(saved.read_text())
    assert made.mode == "diagnose"
    assert made.acts == ()
    assert saved.with_suffix(".md").read_text().startswith("# ")


def test_json_is_the_report_alone(tmp_path: Path) -> None:
    done = call("run", "zombie-gpu", "local", "--no-server", "--json", "--out", str(tmp_path))
    made = Report.model_validate_json(done.stdout)
    assert made.outcome.exit_code == done.returncode


def test_no_server_refuses_modes_that_change() -> None:
    done = call("run", "zombie-gpu", "local", "--no-server", "--mode", "auto")
    assert done.returncode == 2
    assert "--no-server only diagnoses" in done.stderr


def test_replay_of_a_fresh_report_is_the_same(saved: Path) -> None:
    done = call("replay", str(saved), "--json")
    again = json.loads(done.stdout)
    assert again["same"] is True
    assert again["notes"] == []
    assert "same state, causes and plans as then" in call("replay", str(saved)).stdout


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"[]", "not a report"),
        (b'{"schema_version": 7}', "use a newer gpu-runbooks"),
        (b"[" * 200_000, "nested too deep"),
    ],
)
def test_replay_of_something_else(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    done = call("replay", str(path))
    assert done.returncode == 2
    assert says in done.stderr
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


BAD = {
    "no such runbook": (["run", "nope", "local", "--no-server"], "no runbook 'nope'; there are: "),
    "a misspelt runbook": (["run", "zombi-gpu", "local"], "; nearest: zombie-gpu"),
    "a misspelt runbook without a server": (["run", "zombi-gpu", "local", "--no-server"], "; nearest: zombie-gpu"),
    "a misspelt node": (["run", "zombie-gpu", "locl"], "; nearest: local"),
    "no such node": (["run", "zombie-gpu", "nope", "--no-server"], "nope"),
    "no such fleet file": (
        ["run", "zombie-gpu", "local", "--no-server", "--fleet", "/none.yaml"],
        "/none.yaml: No such file",
    ),
    "a folder as fleet file": (["fleet", "check", "/etc"], "/etc: Is a directory"),
    "no such policy file": (["run", "zombie-gpu", "local", "--no-server", "--policy", "/none.yaml"], "/none.yaml: "),
    "no such report": (["replay", "/none.json"], "/none.json: No such file or directory"),
    "the Markdown": (["replay", "README.md"], "give the .json file"),
    "no such command": (["nightyl"], "invalid choice: 'nightyl'"),
    "no target": (["run", "zombie-gpu"], "required: TARGET"),
    "a freeze without a reason": (["freeze", " "], "WHY is empty"),
    "bad mode": (["run", "zombie-gpu", "local", "--mode", "kill"], "invalid choice: 'kill'"),
}


@pytest.mark.parametrize(("args", "says"), BAD.values(), ids=BAD.keys())
def test_bad_usage_is_one_plain_line(args: list[str], says: str) -> None:
    done = call(*args)
    assert done.returncode == 2, done
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_fleet_check_names_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("nodes:\n- {name: a, local: true}\nlimits:\n  zombie-gpu: {idel_s: 3, idle_s: soon}\n  nope: {}\n")
    done = call("fleet", "check", str(path), "--json")
    assert done.returncode == 2
    assert "limits.zombie-gpu.idel_s: unknown limit; there are: " in done.stderr
    assert "limits.zombie-gpu.idle_s: " in done.stderr
    assert "limits.nope: no such runbook; there are: " in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2


def test_a_changed_limit_is_named_where_the_file_is_checked_and_in_the_report(tmp_path: Path) -> None:
    """With its default, its value and its file; one that is set to its default is not changed."""
    path = tmp_path / "fleet.yaml"
    limits = "{clock_possible_s: 2, disk_likely_share: 0.95}"
    path.write_text(f"nodes:\n- {{name: here, local: true}}\nlimits:\n  host-limits: {limits}\n  zombie-gpu: {{idle_s: 42}}\n")
    said = f"clock_possible_s: 2 (s; default: 1), from {path}"
    checked = call("fleet", "check", str(path)).stdout
    assert f"  limit of host-limits: {said}\n" in checked
    assert "  limit of zombie-gpu: idle_s: 42 (" in checked
    assert "disk_likely_share" not in checked
    found = json.loads(call("fleet", "check", str(path), "--json").stdout)["changed_limits"]
    assert [(x["runbook"], x["name"], x["default"], x["now"], x["file"]) for x in found][:1] == [
        ("host-limits", "clock_possible_s", 1, 2, str(path))
    ]
    done = call("run", "host-limits", "here", "--fleet", str(path), "--no-server", "--out", str(tmp_path / "out"))
    assert done.returncode in (0, 1, 3), done.stderr
    page = next((tmp_path / "out").rglob("2*.md")).read_text()
    part = page.partition("## Changed limits\n")[2].partition("\n## ")[0]
    assert plain(kept(part)).strip() == f"- {said}"


def test_fleet_import_makes_a_file_that_checks(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host gpu1\n  HostName 10.0.0.1\n  User ops\n  Port 2222\n")
    made = call("fleet", "import", "ssh-config", str(tmp_path / "config"))
    assert made.returncode == 0, made.stderr
    (tmp_path / "fleet.yaml").write_text(made.stdout)
    assert "gpu1: ops@10.0.0.1:2222" in call("fleet", "check", str(tmp_path / "fleet.yaml")).stdout
    data = json.loads(call("fleet", "import", "ssh-config", str(tmp_path / "config"), "--json").stdout)
    assert data["fleet"]["nodes"][0]["host"] == "10.0.0.1"
    assert call("fleet", "import", "hosts", "/none.yaml").returncode == 2


def test_fleet_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"name: \xff\n")
    done = call("fleet", "check", str(path))
    assert (done.returncode, "not UTF-8 text" in done.stderr) == (2, True)


def test_report_is_printed_when_it_cannot_be_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder was tried before the look; the disk is full by now."""
    (tmp_path / "file").write_text("")
    sample = report()
    assert cli_offline.finish(sample, tmp_path / "file", 5, False) == sample.outcome.exit_code
    said = capsys.readouterr()
    assert "could not be written" in said.err
    assert said.out.startswith(f"{sample.title}: {sample.target}\n------")
    assert "\nWhat was done\n-------" in said.out
    assert "\nRaw readings\n-------" in said.out


@pytest.mark.parametrize("outcome", Outcome)
def test_exit_code_tells_the_verdict(outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = report(outcome=outcome)
    assert cli_offline.finish(sample, tmp_path, 5, False) == outcome.exit_code
    assert str(tmp_path) in capsys.readouterr().out


def test_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes:\n- {name: a, host: h, key: {file: /none}}\n")
    alone = {"GPU_RUNBOOKS_HOME": str(tmp_path / "home"), "PREFECT_API_URL": ""}  # not what other tests left on theirs
    done = call("doctor", "--fleet", str(fleet), "--json", **alone)
    checks = {c["name"]: c for c in json.loads(done.stdout)}
    assert re.match(r"/none: No such file or directory(; nearest: \w+)?$", checks["key"]["says"])
    assert checks["state folder"]["state"] == "ok"
    assert done.returncode == 1
    fleet.write_text("nodes: 3\n")
    assert call("doctor", "--fleet", str(fleet), **alone).returncode == 2


def test_closed_pipe_is_quiet() -> None:
    script = f"{sys.executable} -m deployments.cli.main list --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


def replaced(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(_ns: Any) -> int:
        raise error

    monkeypatch.setattr(cli, "_function", lambda _place: fail)


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    replaced(monkeypatch, KeyboardInterrupt())
    assert main(["list"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_sigterm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it is ignored; afterwards it is what it was before."""
    before = signal.getsignal(signal.SIGTERM)

    def told(_ns: Any) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(cli, "_function", lambda _place: told)
    assert main(["list"]) == 143
    assert "ended by SIGTERM" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert main(["list"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_terminal_that_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it is ignored, as under nohup. A command that stays takes it as its SIGTERM."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    taken: list[int] = []

    def told(_ns: Any) -> int:
        signal.raise_signal(signal.SIGHUP)
        return 0

    def stays(_ns: Any) -> int:
        signal.signal(signal.SIGTERM, lambda *_: taken.append(1))
        return told(_ns)

    try:
        monkeypatch.setattr(cli, "_function", lambda _place: told)
        assert main(["list"]) == 129
        assert "ended by SIGHUP: the terminal was closed" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
        monkeypatch.setattr(cli, "_function", lambda _place: stays)
        assert (main(["list"]), taken) == (0, [1])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        monkeypatch.setattr(cli, "_function", lambda _place: told)
        assert main(["list"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_bug_keeps_its_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    replaced(monkeypatch, ZeroDivisionError("x"))
    assert main(["list", "--json"]) == 6
    said = json.loads(capsys.readouterr().out)
    kept = Path(re.findall(r"\S+\.txt", said["error"])[0])
    assert kept.parent == tmp_path / "logs"
    assert "in fail" in kept.read_text()
    assert "ZeroDivisionError" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_the_exit_codes_are_told_in_one_way() -> None:
    """By `--help` and by README.md; none that a command can end with is missing."""
    told = dict(re.findall(r"^ *(\d+)  (.+)$", EXIT_CODES, re.M))
    table = (ROOT / "README.md").read_text().partition("| exit code | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", table, re.M)) == told
    ends = {FAULT, NO_SERVER, NO_WORKER, ending.HUNG_UP_CODE, ending.INTERRUPTED, ending.PIPE_CLOSED, ending.TERMINATED, ending.UNUSABLE}
    assert {str(code) for code in ends | {o.exit_code for o in Outcome}} == set(told)


def test_triage_gets_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setitem(
        sys.modules,
        "deployments.cli.triage",
        SimpleNamespace(main=lambda args: seen.append(args) or 3),  # type: ignore[func-returns-value]
    )
    assert main(["triage", "-", "--help"]) == 3
    assert seen == [["-", "--help"]]


def test_list_tells_what_a_person_needs_before_a_run() -> None:
    short = call("list")
    assert short.returncode == 0
    assert re.search(r"^zombie-gpu +Zombie GPU +a node of the fleet$", short.stdout, re.M)
    full = call("list", "container-death").stdout
    for words in ("target:      ", "nightly:     yes, where it applies", "  free-engine-space (disruptive)", "  container: "):
        assert words in full, full
    assert "nightly:     no" in call("list", "ssh-auth-failure").stdout
    assert "may change:  nothing" in call("list", "data-check").stdout
    wrong = call("list", "zombi-gpu")
    assert (wrong.returncode, "nearest: zombie-gpu" in wrong.stderr) == (2, True)
