"""A folder for reports that cannot be used: exit code 2, its name and what to do, before anything is asked or read."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.cli import run
from deployments.cli.main import main
from deployments.gateway import main as gateway
from deployments.watch import command as watch
from tasks.report_store import why_unusable
from tests.support.smallfs import fill, tmpfs

COMMANDS = {
    "run": ["run", "host-limits", "local"],
    "nightly": ["nightly"],
    "watch": ["watch"],
    "gateway": ["gateway", "--no-auth"],
}
NOBODY = 65534


@pytest.fixture(autouse=True)
def nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a server is asked nor a target."""

    def begun(*_: Any) -> None:
        raise AssertionError("it was begun")

    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run, "ready", begun)
    for service in (watch, gateway):
        monkeypatch.setattr(service, "use_running_server", begun)


@contextmanager
def below_a_file(folder: Path) -> Iterator[tuple[Path, str]]:
    (folder / "file").touch()
    yield folder / "file" / "x", "a file stands where a folder is needed"


@contextmanager
def in_proc(_folder: Path) -> Iterator[tuple[Path, str]]:
    yield Path("/proc/x"), "No such file or directory"


@contextmanager
def full(folder: Path) -> Iterator[tuple[Path, str]]:
    with tmpfs(folder / "full") as place:
        fill(place)
        yield place, "the disk is full"


KINDS = {"below a file": below_a_file, "in /proc": in_proc, "on a full disk": full}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_refused(command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KINDS[kind](tmp_path) as (place, why):
        assert main([*COMMANDS[command], "--out", str(place), "--json"]) == 2
    out, err = capsys.readouterr()
    said = f"no report can be written to {place}: {why}"
    assert said in err
    assert "choose another folder with --out" in err
    assert said in json.loads(out)["error"]


def test_the_folder_of_the_fleet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump({"nodes": [{"name": "a", "local": True}], "reports": {"folder": "/proc/x"}}))
    assert main(["nightly", "--fleet", str(fleet)]) == 2
    assert "no report can be written to /proc/x: " in capsys.readouterr().err


@contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_is_somebody_elses() -> None:
    with tempfile.TemporaryDirectory() as place:  # mode 0700, and root's
        with as_nobody():
            why = why_unusable(place)
        assert why == f"{place}: permission denied; choose another folder with --out, or chown it"
        assert why_unusable(place) == ""
        assert list(Path(place).iterdir()) == [], "what was tried is gone"
