"""Starting a job again on the node: detached, once, with its output in a named file."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runbooks.core.fleet import Job
from runbooks.core.plan import Step
from tasks.context import ActionRefused
from tasks.gpu.act_jobs import restart_job
from tasks.gpu.probes import start_job
from tasks.transport.base import TransportError
from tests.support.gpu_node import ALIVE, JOB, context, job, look, running, tagged, wait_state
from tests.support.racing import meanwhile


def trainer(tag: str, *argv: str) -> Job:
    """A job with a restart command."""
    made = job(tag, restart=argv or (sys.executable, str(JOB), "sleep", "--tag", tagged(tag)))
    return made.model_copy(update={"name": f"selfplay-{tag}"})  # one start at a time per name


def step(one: Job) -> Step:
    """Its restart."""
    args = {"job": one.name, "argv": list(one.restart)}
    return Step(kind="restart-job", owner="node-a", args=args, commands=("x",), effect="runs")


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Pids to end after the test."""
    found: list[int] = []
    yield found
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def test_it_runs_detached_and_says_where_its_output_goes(started: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_ENGINE_SETTING", "x")
    one = trainer("start1")
    said = restart_job(step(one), context(jobs=(one,))).said
    found = re.search(r"as pid (\d+) .* output in (\S+)", said[0])
    assert found is not None
    pid, log = int(found[1]), Path(found[2])
    started.append(pid)
    p = look(pid)[pid]
    assert p.sid == pid
    assert p.state in ALIVE
    assert log.read_text() == "ready\n"
    assert log.stat().st_mode & 0o777 == 0o600
    env = Path(f"/proc/{pid}/environ").read_text()
    assert "PATH=" in env
    assert "SOME_ENGINE_SETTING" not in env
    assert str(pid) in said[1]
    with pytest.raises(ActionRefused, match=f"already runs: pid {pid}"):
        restart_job(step(one), context(jobs=(one,)))
    wait_state(pid, "S")


def test_it_refuses_while_the_job_runs() -> None:
    one = trainer("start2")
    with running("sleep", tag="start2") as p, pytest.raises(ActionRefused, match=f"already runs: pid {p.pid}"):
        restart_job(step(one), context(jobs=(one,)))


def test_who_else_started_it_in_the_same_moment_is_named(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else takes our lock: before the look it is refused, after it both run, which is seen by the session."""
    monkeypatch.setattr(start_job, "folder", lambda: str(tmp_path))
    one = trainer("start4")
    ask = {"job": one.name, "argv": list(one.restart), "match": one.match, "watch_s": 0.5}
    with ExitStack() as stack:
        others: list[int] = []

        def other() -> None:
            others.append(stack.enter_context(running("sleep", tag="start4")).pid)

        with meanwhile(start_job, "matching", other):
            got = start_job.main(ask)
        started.append(got["pid"])
        assert got["others"] == others
        assert f"already runs: pid {', '.join(map(str, sorted([got['pid'], *others])))}" in start_job.main(ask)["refused"]
    with ExitStack() as stack, meanwhile(start_job, "matching", other, before=True):
        assert "already runs" in start_job.main(ask)["refused"]


def test_a_command_that_is_not_the_fleet_files_is_refused() -> None:
    one = trainer("start3")
    with pytest.raises(ActionRefused, match="is not the one that was planned"):
        restart_job(step(one), context(jobs=(trainer("start3", "true"),)))
    with pytest.raises(ActionRefused, match="has no job"):
        restart_job(step(one), context())


def test_one_that_dies_at_once_is_a_failure_with_its_words() -> None:
    one = trainer("start4", "sh", "-c", "echo no such checkpoint >&2; exit 3")
    with pytest.raises(TransportError, match=r"ended at once with 3.*no such checkpoint"):
        restart_job(step(one), context(jobs=(one,)))


def test_a_command_that_is_not_there_is_a_failure() -> None:
    one = trainer("start5", "/no/such/program")
    with pytest.raises(TransportError, match="does not start"):
        restart_job(step(one), context(jobs=(one,)))


def test_a_starter_that_ends_well_is_fine() -> None:
    one = trainer("start6", "true")
    said = restart_job(step(one), context(jobs=(one,))).said
    assert "ended with 0" in said[0]
