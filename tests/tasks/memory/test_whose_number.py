"""A number that torch's message gives is the machine's: it names a process of this look only there, and only if that was there before."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.reading import Known, Reading, Unknown
from runbooks.core.same_process import MACHINE
from tasks.context import Context
from tasks.memory import read
from tasks.remote.probe import run_probe
from tasks.transport.local import LocalHost

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is "
    "free. Process {pid} has 60.00 GiB memory in use. Including non-PyTorch memory, this process has 18.00 GiB memory in use. Of the "
    "allocated memory 17.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n"
)


@pytest.fixture
def pid() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process.pid
    process.kill()
    process.wait()


def commands(
    monkeypatch: pytest.MonkeyPatch, folder: Path, pid: int, namespace: int | None, written: float = 0.0
) -> Reading[dict[int, str]]:
    """What the reader takes for the process of the message, looked for from that PID namespace, the log written so many seconds ago."""
    def probe(host: Any, name: str, data: Any, **more: Any) -> Any:
        found = run_probe(host, name, data, **more)
        return found | {"namespace": namespace} if name == "memory_node" else found

    monkeypatch.setattr(read, "run_probe", probe)
    log = folder / "train.log"
    log.write_text(MESSAGE.format(pid=pid))
    at = log.stat().st_mtime - written
    os.utime(log, (at, at))
    fleet = Fleet(nodes=(Node(name="a", local=True),))
    context = Context(fleet=fleet, target="a", open_host=lambda n: LocalHost(n.name), options={"log": str(log)})
    found: Reading[dict[int, str]] = read.gather_memory_pressure(context).commands
    return found


def test_the_machines_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int) -> None:
    found = commands(monkeypatch, tmp_path, pid, MACHINE)
    assert isinstance(found, Known)
    assert "time.sleep(60)" in found.value[pid]


def test_one_that_began_after_the_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int) -> None:
    found = commands(monkeypatch, tmp_path, pid, MACHINE, written=3600.0)
    assert isinstance(found, Known)
    assert found.value == {}


@pytest.mark.parametrize("namespace", [4026532500, None])
def test_in_another_namespace_it_names_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int, namespace: int | None) -> None:
    found = commands(monkeypatch, tmp_path, pid, namespace)
    assert isinstance(found, Unknown)
    assert "container" in found.detail
