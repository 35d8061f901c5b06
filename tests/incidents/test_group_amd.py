"""T2-01: an engine child that outlived its parent on an AMD GPU; the kernel's files are made up, the processes are real."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runbooks.core.fleet import Job
from runbooks.core.reading import Known, Unknown
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.evidence import Evidence
from tests.incidents.test_group import SHORT, verdicts
from tests.runbooks.gpu.build import judge
from tests.runbooks.gpu.test_situations import killed
from tests.support.amd_tree import AmdTree
from tests.support.gpu_node import context, gather

HELD = 114151137280
SERVER = """
    import ctypes, os, socket, sys, time
    if os.fork() == 0:
        store = socket.create_server(("127.0.0.1", 0))  # a TCPStore's port, of which nobody but the engine knows
        print(os.getpid(), flush=True)
        while True:
            (sum(range(200000)) if "busy" in sys.argv else None, time.sleep(0.02 if "busy" in sys.argv else 1))
    time.sleep(1 if "stay" not in sys.argv else 600)
    os._exit(1)
"""


@contextmanager
def engine(folder: Path, *words: str) -> Iterator[int]:
    """The engine child; without "stay" its parent ends without a word, as after `timeout`."""
    folder.mkdir(exist_ok=True)
    script = folder / "engine_core.py"
    script.write_text(textwrap.dedent(SERVER))
    p = subprocess.Popen([sys.executable, str(script), *words], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert p.stdout is not None
    pid = int(p.stdout.readline())
    try:
        if "stay" not in words:
            p.wait(10)
        yield pid
    finally:
        for one in {pid, p.pid}:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        p.wait(10)


def look(tree: AmdTree, jobs: tuple[Job, ...] = ()) -> Evidence:
    """Two looks, seconds apart."""
    first = gather(context(None, jobs, labels=tree.labels))
    time.sleep(2)
    return gather(context(None, jobs, labels=tree.labels, earlier={"id": "r-1", "evidence": first.model_dump(mode="json")}))


def diagnosed(tree: AmdTree, jobs: tuple[Job, ...] = ()) -> Diagnosis:
    return judge(look(tree, jobs), **SHORT)


@pytest.mark.incident("T2-01", came="right", fed="readers", known=True)
def test_the_orphan_is_named_with_its_memory(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path / "node")
    with engine(tmp_path) as pid:
        tree.hold(pid, 1, HELD)
        d = diagnosed(tree)
    assert verdicts(d, [pid]) == {pid: ("orphan-idle", Certainty.CONFIRMED)}
    assert (d.state, killed(d)) == (State.UNHEALTHY, [pid])
    assert f"pid {pid} on GPU 1" in d.headline
    assert "106.3 GiB" in d.plans[0].steps[0].effect
    assert [s.kind for p in d.plans for s in p.steps] == ["terminate-processes"]
    assert "AMD Instinct MI300X" in d.symptom


@pytest.mark.incident("T2-01", came="right", fed="readers", known=True, twin="the run's parent lives: a server that waits")
def test_the_child_of_a_parent_that_lives(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path / "node")
    with engine(tmp_path, "stay") as pid:
        tree.hold(pid, 1, HELD)
        d = diagnosed(tree)
    assert verdicts(d, [pid]) == {pid: ("waiting-for-work", Certainty.LIKELY)}
    assert d.plans == ()
    assert f"Pid {pid}" in d.symptom
    assert "106.3 GiB of the 192.0 GiB of GPU 1" in d.symptom, "a large idle share is said, benign or not"


@pytest.mark.incident("T2-01", came="right", fed="readers", known=True, twin="the orphan still works")
def test_an_orphan_at_work_is_left_alone(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path / "node")
    with engine(tmp_path, "busy") as pid:
        tree.hold(pid, 0, HELD)
        d = diagnosed(tree)
    assert verdicts(d, [pid])[pid][0] in ("works-at-low-utilisation", "compiling-or-loading")
    assert d.plans == ()


@pytest.mark.incident("T2-01", came="right", fed="readers", known=True, twin="another run of the same name works beside it")
def test_only_the_orphan_is_ended_and_not_its_namesake(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path / "node")
    bench = Job(name="bench", match=r"engine_core\.py", warm_up_s=0, nodes=("node-a",))
    with engine(tmp_path / "a") as left, engine(tmp_path / "b", "busy", "stay") as works:
        tree.hold(left, 0, HELD)
        tree.hold(works, 1, HELD)
        d = judge(look(tree, (bench,)), **SHORT, together_s=0.5)  # here the new run begins seconds after the old one
    assert verdicts(d, [left])[left] == ("orphan-idle", Certainty.CONFIRMED)
    assert killed(d) == [left]


@pytest.mark.incident("T2-01", came="open", fed="readers", known=True, twin="the driver's files are not there")
def test_an_amd_gpu_that_cannot_be_read_is_not_no_gpu(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path / "node", driver=False)
    e = gather(context(None, labels=tree.labels))
    assert isinstance(e.gpus, Unknown)
    assert "an AMD GPU that can't be read here (0000:05:00.0, 0000:26:00.0)" in e.gpus.detail
    d = judge(e)
    assert (d.state, d.plans) == (State.CANNOT_TELL, ())
    assert "AMD GPU" in d.headline


@pytest.mark.incident("T2-01", came="open", fed="readers", known=True, twin="only the compute driver's device is there")
def test_kfd_alone_speaks_for_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    e = gather(context(None, labels={"fake-root": str(tmp_path)}))
    assert isinstance(e.gpus, Unknown)
    assert judge(e).state is State.CANNOT_TELL


def test_an_idle_node_is_read_in_full(tmp_path: Path) -> None:
    tree = AmdTree(tmp_path, cards=2)
    e = gather(context(None, labels=tree.labels))
    assert isinstance(e.gpus, Known)
    (first, second) = e.gpus.value.gpus
    assert (first.bus_id, second.index, second.name) == ("0000:05:00.0", 1, "AMD Instinct MI300X")
    assert first.samples[0].power_w == 173
    assert isinstance(first.processes, Known)
    tree.show(0, used=40 << 30)  # somebody draws, or holds it without the compute driver
    again = gather(context(None, labels=tree.labels))
    assert isinstance(again.gpus, Known)
    assert isinstance(again.gpus.value.gpus[0].processes, Unknown)
    assert judge(again).state is State.CANNOT_TELL
