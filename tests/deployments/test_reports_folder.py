"""A place for reports that cannot be used: exit code 2, its name and what to do, before anything is asked or read."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.cli import run, run_offline
from deployments.cli.main import main
from deployments.gateway import main as gateway
from deployments.ports import free_port
from deployments.reports import check_reports
from deployments.watch import command as watch
from runbooks.core.fleet import Fleet
from tasks.report_store import why_unusable
from tests.support.smallfs import fill, tmpfs
from tests.tasks.systems.test_each_system import keys, paged

COMMANDS = {
    "run": ["run", "host-limits", "local"],
    "run --no-server": ["run", "host-limits", "local", "--no-server"],
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
    monkeypatch.setattr(run_offline, "run_offline", begun)
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


TO_S3 = {"reports": {"s3": "s3://gone/reports"}, "nodes": [{"name": "local", "local": True}]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_refuses_the_copies(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(TO_S3))
    with paged({"/": "<Error><Code>NoSuchBucket</Code><Message>said so</Message></Error>"}, 404) as store:
        for name, value in keys(store).items():
            monkeypatch.setenv(name, value)
        assert main([*COMMANDS[command], "--fleet", str(tmp_path / "fleet.yaml"), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "no report can be copied to s3://gone/reports: s3://gone/reports: NoSuchBucket: said so; correct reports.s3" in said


def test_a_store_that_does_not_answer_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report in the folder stays, and the outage may be what is looked for."""
    for name, value in keys(f"http://127.0.0.1:{free_port()}").items():
        monkeypatch.setenv(name, value)
    check_reports(str(tmp_path), Fleet.model_validate(TO_S3))
    said = capsys.readouterr().err
    assert said.startswith("warning: no report can be copied to s3://gone/reports: ")
    assert said.endswith(f"; it stays in {tmp_path}\n")
