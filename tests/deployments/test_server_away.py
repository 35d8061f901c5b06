"""A Prefect server that cannot be used: one line with its address, what is wrong and what to do, exit code 5, within 5 s."""

import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from deployments import server
from deployments.cli.main import COMMANDS, main
from deployments.errors import NO_SERVER
from deployments.serving import use_answering_server
from deployments.state import LocalState, Proc, write_state
from tasks.this_machine import start_ticks
from tests.support.silent_servers import FINE, KINDS, answering, hanging, refusing

ASKS = {
    "up": [], "status": [], "login": [], "nightly": [], "run": ["host-limits", "local"], "lab": ["zombie-gpu"], "secrets": ["--set", "x"],
    "doctor": [],
    "approve": ["abc"], "reject": ["abc"], "show": ["abc"], "freeze": ["a test"], "unfreeze": [], "reset-breaker": [],
}  # fmt: skip
"""Every command that needs the server at once, with what it is called with here."""
NEEDS_NONE = {
    "down": "stops processes of this machine", "list": "", "replay": "", "bundle": "", "fleet": "", "alerts": "",
    "approver": "", "new-runbook": "writes files",
    "logs": "reads files and systems", "triage": "", "restore": "begins with etcd; then it is a run",
    "watch": "stays, and waits for the server", "gateway": "stays, says so in /healthz", "notify": "only where a channel is a Secret block",
}  # fmt: skip
LONGEST_S = 5.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:wrong")
    return tmp_path


def test_every_command_is_known_here() -> None:
    """A new one says which it is."""
    assert set(ASKS) | set(NEEDS_NONE) == {*COMMANDS, "triage", "restore"}


def said(command: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, float]:
    import_module(COMMANDS[command[0]].partition(":")[0])  # how long Python takes to load it is the machine's business
    began = time.monotonic()
    code = main(command)
    took = time.monotonic() - began
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, err if command[0] not in ("doctor", "status") else out, took


@pytest.mark.parametrize("command", sorted(ASKS))
@pytest.mark.parametrize("kind", ["hanging", "wrong password"])
def test_each_command_says_so(kind: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = KINDS[kind]
    with make() as api, temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: "admin:wrong"}):
        monkeypatch.setenv("PREFECT_API_URL", api)
        code, text, took = said([command, *ASKS[command]], capsys)
    assert code == NO_SERVER
    line = next(x for x in text.splitlines() if api in x and words in x)
    assert "What to do: " in line or command == "doctor"
    assert took < LONGEST_S


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_silence_has_its_words(kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = KINDS[kind]
    with make() as api, temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: "admin:wrong"}):
        monkeypatch.setenv("PREFECT_API_URL", api)
        code, text, took = said(["approve", "abc"], capsys)
    assert code == NO_SERVER
    (line,) = text.splitlines()
    assert line.startswith(f"gpu-runbooks: the Prefect server at {api} ")
    assert words in line
    assert "`gpu-runbooks run RUNBOOK TARGET --no-server`" in line
    assert took < LONGEST_S


def test_the_password_of_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with refusing() as api:
        monkeypatch.setenv("PREFECT_API_URL", api.replace("://", "://ops:hunter2@"))
        assert "hunter2" not in said(["status"], capsys)[1]


def test_a_process_of_its_own_needs_no_longer(home: Path) -> None:
    """With the start of Python; Prefect's library is not even loaded."""
    with refusing() as api:
        env = {"PATH": "/usr/bin:/bin", "PREFECT_API_URL": api, "GPU_RUNBOOKS_HOME": str(home)}
        began = time.monotonic()
        argv = [sys.executable, "-X", "importtime", "-m", "deployments.cli.main", "status"]
        done = subprocess.run(argv, env=env, cwd=server.__file__.rsplit("/", 2)[0], capture_output=True, text=True, check=False)
    assert done.returncode == NO_SERVER
    assert "| prefect\n" not in done.stderr
    assert time.monotonic() - began < 4 * LONGEST_S  # the machine is shared


@pytest.mark.parametrize("command", ["approve", "reject", "show", "status", "login"])
def test_what_only_looks_starts_no_server(command: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = said([command, *ASKS[command]], capsys)
    assert code == NO_SERVER
    assert "start it with `gpu-runbooks up`" in text
    assert not (home / "server.json").exists()
    write_state(LocalState(port=1, api="http://127.0.0.1:1/api", ui="http://127.0.0.1:1"))
    code, text, _ = said([command, *ASKS[command]], capsys)
    assert code == NO_SERVER
    assert "http://127.0.0.1:1/api is not running" in text


@pytest.mark.parametrize("command", sorted(set(ASKS) - {"doctor"}))
def test_a_local_server_that_hangs(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(server, "age_s", lambda _proc: 3600.0)  # not one that is only starting
    try:
        with hanging() as api:
            proc = Proc(name="server", pid=sleeper.pid, start_ticks=start_ticks(sleeper.pid) or 0)
            write_state(LocalState(port=1, api=api, ui=api.removesuffix("/api"), processes=(proc,)))
            code, text, took = said([command, *ASKS[command]], capsys)
        assert code == NO_SERVER
        assert f"the Prefect server at {api} does not answer within" in text
        assert f"(pid {sleeper.pid}) with `gpu-runbooks down`" in text
        assert took < LONGEST_S
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_server_that_goes_away_after_the_first_contact(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`approve` waits for it as a run does, then ends in a sentence as well."""
    from deployments.cli import approve as decide

    with answering(FINE, FINE) as api, temporary_settings({PREFECT_API_URL: api}):
        monkeypatch.setenv("PREFECT_API_URL", api)
        use_answering_server()
    monkeypatch.setattr(decide, "use_answering_server", lambda: None)
    with temporary_settings({PREFECT_API_URL: api}):
        code, text, took = said(["approve", "abc"], capsys)
    assert code == NO_SERVER
    assert took > 19
    (line,) = text.splitlines()
    assert f"the Prefect server at {api} cannot be reached" in line
