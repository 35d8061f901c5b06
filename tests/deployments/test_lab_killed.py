"""What a killed rehearsal has left is taken away by its record: exactly these processes, and only once it is gone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lab import killed
from tasks.this_machine import start_ticks
from tests.support.gpu_node import wait_state
from tests.support.waiting import until

LAB = """
import subprocess, sys, time
from deployments.lab.killed import own_folder
with own_folder() as (folder, record):
    (folder / "train.py").write_text("import time; time.sleep(600)")
    print(folder, subprocess.Popen([sys.executable, str(folder / "train.py")], start_new_session=True).pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / "home" / "lab"


@pytest.fixture
def lab(home: Path) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """A rehearsal at work: its process, its folder, and its trainer, which is stopped and recorded."""
    with subprocess.Popen([sys.executable, "-c", LAB], stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        folder, _, trainer = lab.stdout.readline().partition(" ")
        os.kill(int(trainer), signal.SIGSTOP)
        wait_state(int(trainer), "T", 60)
        until(lambda: recorded(home) == [int(trainer)], 30, "its record")
        yield lab, Path(folder), int(trainer)
        lab.kill()
    for proc in killed.started_from(Path(folder)):
        killed.kill(proc)


def recorded(home: Path) -> list[int]:
    return [p["pid"] for f in home.glob("*.json") for p in json.loads(f.read_text())["processes"]]


def gone(pid: int) -> bool:
    return start_ticks(pid) is None


def test_what_a_killed_rehearsal_left_is_taken_away(home: Path, lab: tuple[subprocess.Popen[str], Path, int]) -> None:
    process, folder, trainer = lab
    process.kill()
    process.wait()
    assert folder.is_dir()
    assert not gone(trainer), "it is left behind"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"{folder}/train.py"]) as other:
        killed.take_away(server=False)
        assert (gone(trainer), folder.exists(), gone(other.pid)) == (True, False, False), "by its record, not by its name"
        other.kill()
    assert len(list(home.glob("*.json"))) == 1, "its question, if there is one, is for the next time that a server is there"


def test_a_rehearsal_that_lives_is_left_alone(home: Path, lab: tuple[subprocess.Popen[str], Path, int]) -> None:
    _, folder, trainer = lab
    killed.take_away(server=True)
    assert (gone(trainer), folder.is_dir(), len(list(home.glob("*.json")))) == (False, True, 1)


@pytest.mark.parametrize("what", ["another process has its number", "another folder has its name", "an earlier boot"])
def test_what_is_not_its_own_any_more_is_left_alone(home: Path, lab: tuple[subprocess.Popen[str], Path, int], what: str) -> None:
    process, folder, trainer = lab
    process.kill()
    process.wait()
    (path,) = home.glob("*.json")
    record = json.loads(path.read_text())
    if what == "another process has its number":
        record["processes"][0]["start_ticks"] -= 1
    elif what == "another folder has its name":
        record["inode"] += 1
    else:
        record["owner"]["boot_id"] = "0" * 36
    path.write_text(json.dumps(record))
    killed.take_away(server=False)
    assert gone(trainer) is (what == "another folder has its name")
    assert folder.exists() is (what == "another folder has its name")


def test_a_rehearsal_that_ends_by_itself_leaves_no_record(home: Path, tmp_path: Path) -> None:
    with killed.own_folder() as (folder, _):
        assert len(list(home.glob("*.json"))) == 1
    assert not folder.exists()
    assert list(home.iterdir()) == []
