"""Jobs whose processes wait for each other: real processes with sockets, files and launchers, GPUs by the stub driver or made-up sysfs."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import StubGpu
from runbooks.core.fleet import Job
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.evidence import Evidence
from tests.runbooks.gpu.build import judge
from tests.runbooks.gpu.test_situations import killed
from tests.support.gpu_fixtures import built, driver  # noqa: F401 - fixtures
from tests.support.gpu_node import context, gather
from tests.support.waiting import until

GIB = 1024  # MiB
RANK = """
    import os, socket, sys, time
    role, port = sys.argv[1], int(sys.argv[2])
    ready = lambda: open(f"{sys.argv[3]}.{os.getpid()}.ready", "w").close()
    if role == "upload":
        s = socket.create_connection(("127.0.0.1", port))
        ready()
        while True:
            s.sendall(b"x" * 65536)
            time.sleep(0.02)
    if role == "save":
        with open(sys.argv[3], "wb", buffering=0) as f:
            ready()
            while True:
                f.write(b"x" * 65536)
                time.sleep(0.02)
    if role == "prepare":
        with open(os.path.join(os.path.dirname(sys.argv[3]), "cache-0.arrow"), "wb", buffering=0) as f:
            ready()
            while True:
                f.write(b"x" * 65536)
                time.sleep(0.02)
    if role == "serve":
        store = socket.create_server(("127.0.0.1", 0))
    ready()
    if role == "ask":
        sys.stdin.read()
    while True:
        time.sleep(1)
"""
LAUNCH = """
    import os, subprocess, sys, time
    rank, port, save, stay, roles = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
    for i, role in enumerate(roles):
        env = os.environ | {"RANK": str(i), "WORLD_SIZE": str(len(roles)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        argv = [sys.executable, rank, role, port, save, "--job", "nightly"]
        p = subprocess.Popen(argv, env=env, start_new_session=True, stdin=subprocess.PIPE)
        print(p.pid, flush=True)
    while stay == "stay":
        time.sleep(1)
"""


@contextmanager
def sink() -> Iterator[int]:
    """The store that takes the upload."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            with suppress(OSError):
                while True:
                    one, _ = server.accept()
                    threading.Thread(target=lambda s=one: [None for _ in iter(lambda: s.recv(1 << 20), b"")], daemon=True).start()

        threading.Thread(target=take, daemon=True).start()
        yield int(server.getsockname()[1])


@contextmanager
def ranks(folder: Path, *roles: str, stay: bool = True) -> Iterator[list[int]]:
    """Ranks of one job under a launcher, each in a session of its own as torchrun makes them; without `stay` the launcher is gone."""
    rank, launch = folder / "train_rank.py", folder / "torchrun.py"
    rank.write_text(textwrap.dedent(RANK))
    launch.write_text(textwrap.dedent(LAUNCH))
    with sink() as port:
        argv = [sys.executable, str(launch), str(rank), str(port), str(folder / "step-70.pt.tmp"), "stay" if stay else "go", *roles]
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert p.stdout is not None
        pids = [int(p.stdout.readline()) for _ in roles]
        try:
            if not stay:
                p.wait(10)
            until(lambda: all((folder / f"step-70.pt.tmp.{pid}.ready").exists() for pid in pids))
            yield pids
        finally:
            for pid in (*pids, *([p.pid] if stay else [])):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            p.wait(10)


def job(folder: Path, **fields: Any) -> Job:
    """The ranks of that folder only: other tests run beside this one."""
    return Job(**{"name": "nightly", "match": re.escape(f"{folder}/train_rank.py"), "warm_up_s": 0, **fields})


def cards(pids: list[int], use: dict[int, str] | None = None) -> list[StubGpu]:
    """One GPU for each rank, with what its counter says."""
    made = []
    for i, pid in enumerate(pids):
        keys = {"uuid": f"GPU-5a3c1e90-0000-4000-8000-00000000000{i + 1}", "bus_id": f"00000000:0{i + 1}:00.0"}
        keys["sm"] = (use or {}).get(pid, "0")
        gpu = holding(pid, mib=40 * GIB)
        gpu.keys.update(keys)
        made.append(gpu)
    return made


def seen_twice(stub: StubDriver, folder: Path, gap_s: float = 2.0, **fields: Any) -> Evidence:
    """Two looks, the second with the first as its earlier report."""
    jobs = (job(folder, **fields),) if fields.pop("declared", True) else ()
    first = gather(context(stub, jobs))
    time.sleep(gap_s)
    return gather(context(stub, jobs, earlier={"id": "r-1", "evidence": first.model_dump(mode="json")}))


SHORT = {"idle_s": 1.5, "spin_s": 1.5, "warm_up_s": 0.0}  # the two looks are seconds apart here, minutes in the incident


def verdicts(d: Diagnosis, pids: list[int]) -> dict[int, tuple[str, Certainty]]:
    """What was said of each rank."""
    return {pid: (c.slug, c.certainty) for pid in pids for c in d.causes if c.subject.startswith(f"pid {pid}")}


ZG08 = {"fed": "readers", "known": True}


@pytest.mark.incident("ZG08", came="right", **ZG08)
@pytest.mark.parametrize("role", ["upload", "save"])
def test_a_mate_waits_while_one_uploads_or_saves(driver: StubDriver, tmp_path: Path, role: str) -> None:  # noqa: F811
    with ranks(tmp_path, role, "wait") as pids:
        driver.show(*cards(pids))
        d = judge(seen_twice(driver, tmp_path, nodes=("node-a",)), **SHORT)
    said = verdicts(d, pids)
    assert said[pids[0]][0] == {"upload": "transferring", "save": "writing-checkpoint"}[role]
    assert said[pids[1]] == ("waits-for-its-mate", Certainty.CONFIRMED)
    assert (d.state, d.plans) == (State.HEALTHY, ())
    assert any(f"do not kill pid {pids[1]}" in line for line in d.must_not)


@pytest.mark.incident("ZG08", came="right", twin="nothing is uploaded any more", **ZG08)
def test_both_wait_and_nobody_works(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    with ranks(tmp_path, "wait", "wait") as pids:
        driver.show(*cards(pids))
        d = judge(seen_twice(driver, tmp_path, nodes=("node-a",)), **SHORT)
    assert set(verdicts(d, pids).values()) == {("idle-process", Certainty.CONFIRMED)}
    assert d.state is State.UNHEALTHY
    assert set(pids) <= set(killed(d))


@pytest.mark.incident("ZG08", came="right", twin="the launcher died, so both look like orphans", **ZG08)
def test_orphans_of_one_launcher_are_still_mates(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    with ranks(tmp_path, "upload", "wait", stay=False) as pids:
        driver.show(*cards(pids))
        d = judge(seen_twice(driver, tmp_path, declared=False), **SHORT)
    assert verdicts(d, pids)[pids[1]] == ("waits-for-its-mate", Certainty.CONFIRMED)
    assert (d.state, d.plans) == (State.HEALTHY, ())


@pytest.mark.incident("ZG08", came="right", twin="the one that uploads is of another run", **ZG08)
def test_another_run_s_upload_acquits_nobody(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with ranks(tmp_path / "a", "upload", stay=False) as busy, ranks(tmp_path / "b", "wait", stay=False) as left:
        driver.show(*cards([*busy, *left]))
        d = judge(seen_twice(driver, tmp_path, declared=False), **SHORT)
    assert verdicts(d, left)[left[0]] in (("orphan-idle", Certainty.CONFIRMED), ("idle-process", Certainty.LIKELY))
    assert d.state is State.UNHEALTHY
    assert busy[0] not in killed(d)


ZG11: dict[str, Any] = {"fed": "readers", "known": True}
SPINS = "100,100,100,100,100,100"


def waits_for_a_person(stub: StubDriver, folder: Path, *roles: str, use: list[str], **fields: Any) -> tuple[Diagnosis, list[int]]:
    """Ranks at those counters, with an own log that nobody writes to."""
    log = folder / "answers.log"
    log.write_text("prompt answered\n")
    os.utime(log, (time.time() - 3600,) * 2)
    progress = ({"kind": "log", "path": str(log)},)
    with ranks(folder, *roles) as pids:
        stub.show(*cards(pids, dict(zip(pids, use, strict=True))))
        return judge(seen_twice(stub, folder, nodes=("node-a",), progress=progress, **fields), **SHORT), pids


@pytest.mark.incident("ZG11", came="right", **ZG11)
@pytest.mark.parametrize("kind", ["interactive", "inference"])
def test_ranks_that_spin_for_one_that_waits_for_a_person(driver: StubDriver, tmp_path: Path, kind: str) -> None:  # noqa: F811
    roles = ("ask", "wait", "wait", "wait")
    d, pids = waits_for_a_person(driver, tmp_path, *roles, use=["0", SPINS, SPINS, SPINS], kind=kind)
    said = verdicts(d, pids)
    assert said[pids[0]] == ("waiting-for-work", Certainty.CONFIRMED)
    assert {said[p] for p in pids[1:]} == {("waits-for-its-mate", Certainty.CONFIRMED)}
    assert (d.state, d.plans) == (State.HEALTHY, ())
    assert all(any(f"do not kill pid {p}" in line for line in d.must_not) for p in pids)


@pytest.mark.incident("ZG11", came="right", twin="a training job: nobody is asked, one rank lags", **ZG11)
def test_ranks_that_spin_in_a_training_job(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "wait", "wait", "wait", use=["0", SPINS, SPINS])
    assert {verdicts(d, pids)[p] for p in pids[1:]} == {("collective-spin", Certainty.CONFIRMED)}
    assert d.state is State.UNHEALTHY
    assert not {pids[1], pids[2]} & set(killed(d)) or set(pids) <= set(killed(d))


@pytest.mark.incident("ZG11", came="open", twin="no rank waits for anybody", **ZG11)
def test_all_ranks_of_an_interactive_job_spin(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "wait", "wait", use=[SPINS, SPINS], kind="interactive")
    assert set(verdicts(d, pids).values()) == {("collective-spin", Certainty.POSSIBLE)}
    assert (d.state, d.plans) == (State.CANNOT_TELL, ())
