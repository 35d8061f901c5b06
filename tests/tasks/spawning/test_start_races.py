"""Starting a worker where others live too: lock and log lead nowhere that another user chose, and two starts make one worker."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.orchestrator_config import WorkerProcess
from tasks.remote.probe import run_probe
from tasks.remote.probes.below import open_trusted
from tasks.remote.probes.proc import boot_id
from tasks.spawning.probes import pod_start_worker
from tasks.spawning.probes.pod_processes import matching
from tasks.transport.local import LocalHost
from tests.support.racing import Steps, every_step, writing_at

UID = 12345


def ask(folder: Path, **more: Any) -> dict[str, Any]:
    mark = f"{folder.name}-worker"
    return {"argv": ["sh", "-c", f"sleep 30; : {mark}"], "match": f"sh -c .*{mark}", "lock": str(folder / "lock"), "pod": "p",
            "boot_id": boot_id(), "out": str(folder / "shared" / "logs" / "w.log"), "watch_s": 0.2} | more  # fmt: skip


def end(folder: Path) -> int:
    """Ends every worker of the test; how many there were."""
    found = matching(ask(folder)["match"])
    for p in found:
        with suppress(OSError):
            os.killpg(p["pid"], signal.SIGKILL)
    return len(found)


def theirs(path: Path, to: Path) -> None:
    """A link of another user."""
    path.symlink_to(to)
    os.lchown(path, UID, UID)


def test_a_log_and_a_lock_of_another_user(folder: Path) -> None:
    """A link to one of root's files, a folder of theirs, a second name, a lock file that they hold."""
    value = folder / "of-root"
    value.write_text("of value")
    logs = folder / "shared" / "logs"
    logs.mkdir(parents=True)
    theirs(logs / "w.log", value)
    assert "w.log of" in pod_start_worker.start(ask(folder))["refused"]
    (logs / "w.log").unlink()
    os.link(value, logs / "w.log")
    assert "one name" in pod_start_worker.start(ask(folder))["refused"]
    (logs / "w.log").unlink()
    os.chown(logs, UID, UID)
    assert f"belongs to uid {UID}" in pod_start_worker.start(ask(folder))["refused"]
    os.chown(logs, 0, 0)
    (folder / "lock").touch()
    os.chown(folder / "lock", UID, UID)
    got = pod_start_worker.start(ask(folder))
    assert "the lock: lock of" in got["refused"]
    assert f"belongs to uid {UID}" in got["refused"]
    assert value.read_text() == "of value"
    assert end(folder) == 0


def test_a_link_that_root_made_is_followed(folder: Path) -> None:
    """/workspace is one on some pods."""
    (folder / "volume").mkdir()
    (folder / "shared").symlink_to("volume")
    try:
        got = pod_start_worker.start(ask(folder))
        assert got["pid"] > 0
        assert got["others"] == []
        assert (folder / "volume" / "logs" / "w.log").exists()
        assert "runs already" in pod_start_worker.start(ask(folder))["refused"]
    finally:
        end(folder)


def test_exchanged_before_every_step(folder: Path) -> None:
    """Another user who may write to a folder above exchanges the log's folder for a link to one of root's."""
    shared, of_root = folder / "shared", folder / "of-root"

    def exchange() -> None:
        if (shared / "logs").exists():
            (shared / "logs").rename(shared / "away")
        theirs(shared / "logs", of_root)

    def run(at: int) -> Steps:
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir()
        shared.chmod(0o777)
        of_root.mkdir(exist_ok=True)
        with writing_at(folder, at, exchange, on_fd=True) as steps, suppress(OSError):
            os.close(open_trusted(str(shared / "logs" / "w.log"), os.O_WRONLY | os.O_APPEND))
        assert list(of_root.iterdir()) == [], at
        return steps

    assert every_step(folder, run) > 6


@pytest.mark.parametrize("tries", [3, pytest.param(40, marks=pytest.mark.soak)])
def test_two_starts_at_once(folder: Path, tries: int) -> None:
    host = LocalHost("pod")
    for _ in range(tries):
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: run_probe(host, "pod_start_worker", ask(folder)), range(2)))
        assert sorted("pid" in a for a in answers) == [False, True], answers
        assert end(folder) == 1


def test_the_lock_is_ones_own_unless_the_fleet_file_names_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WorkerProcess().lock == ""
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: UID)
    assert pod_start_worker.own_lock() == f"{folder}/.gpu-runbooks/worker.lock"
