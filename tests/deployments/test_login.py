"""`gpu-runbooks login` and what `up` says of the log-in: as it must be typed for a person, never into a log unasked."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from deployments.cli import login
from deployments.state import auth_string

UI = "http://127.0.0.1:4200/v2/dashboard"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a log-in, whose server answers."""
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    for name in ("PREFECT_API_URL", *login.SCREENS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(login, "use_answering_server", lambda: None)
    monkeypatch.setattr("flows.ui_pages.ui_url", lambda _page: UI)
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], as_json: bool = False, no_browser: bool = False) -> str:
    assert login.cmd_login(Namespace(json=as_json, no_browser=no_browser)) == 0
    return capsys.readouterr().out


def test_login_prints_what_is_typed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys)
    assert said.startswith(f"UI:     {UI}\nlog-in: {auth_string()}\n")
    assert str(here / "auth.json") in said
    assert "opened" not in said
    assert json.loads(ask(capsys, as_json=True)) == {"ui": UI, "auth": auth_string(), "file": str(here / "auth.json")}


def test_what_up_writes_into_a_log_names_the_place_alone(here: Path) -> None:
    said = "\n".join(login.login_lines(UI, typed=False))
    assert auth_string() not in said
    assert str(here / "auth.json") in said


def test_the_log_in_of_somebody_elses_server_is_not_made_up(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
    assert "$PREFECT_API_AUTH_STRING" in ask(capsys)
    assert json.loads(ask(capsys, as_json=True))["auth"] is None
    assert not (here / "auth.json").exists()


def test_a_terminal_with_a_browser_opens_the_page(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened = here / "opened"
    browser = here / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert "opened" not in ask(capsys)  # a pipe
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "opened" not in ask(capsys, no_browser=True)
    assert "opened in your browser" in ask(capsys)
    assert opened.read_text() == f"{UI}\n"
