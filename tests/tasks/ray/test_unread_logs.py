"""A worker's log that could not be read is not one without an error: read by the real probe, without root's right to read all."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.verdict import Certainty, State
from tests.incidents.test_places_ray import ALIVE, RECORD, Head, serving, slugs
from tests.support.need import need_program
from tests.tasks.ray.test_real_ray import InNamespace

NOT_ALL = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
RUNS = RECORD | {"status": "RUNNING", "job_id": "02000000"}
OWN, OTHER = "worker-aa11-02000000-4242.err", "worker-bb22-02000000-4243.err"


def died(pid: int, words: str) -> dict[str, Any]:
    cause = {"actor_died_error_context": {"error_message": words, "reason": "WORKER_DIED", "node_ip_address": "127.0.0.1"}}
    return {"actor_id": "a1", "class_name": "Engine", "state": "DEAD", "job_id": "02000000", "pid": pid, "node_id": ALIVE, "name": "e",
            "required_resources": {}, "death_cause": cause}  # fmt: skip


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    need_program("setpriv", "util-linux")
    with serving(Head(tmp_path / "ray")) as found:
        found.host = lambda name: InNamespace(name, NOT_ALL if os.geteuid() == 0 else ())
        found.jobs = [RUNS]
        found.log(OWN, "Training:  12%\n")
        found.log(OTHER, "Training:  12%\n")
        yield found
        found.folder.joinpath("session_latest", "logs").chmod(0o700)


def logs(head: Head) -> Path:
    return head.folder / "session_latest" / "logs"


def test_where_every_log_is_read_it_is_well(head: Head) -> None:
    assert head.judged().state is State.HEALTHY


def test_one_log_that_may_not_be_read(head: Head) -> None:
    (logs(head) / OTHER).chmod(0)
    found = head.judged()
    assert found.state is State.CANNOT_TELL
    assert all(c.certainty is not Certainty.CONFIRMED for c in found.causes)
    assert any(OTHER in line and "denied" in line for line in found.unknowns), found.unknowns


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400])
def test_a_folder_that_may_not_be_read(head: Head, mode: int) -> None:
    """Neither its names, nor what they are."""
    logs(head).chmod(mode)
    found = head.judged()
    assert found.state is State.CANNOT_TELL
    assert any(line.startswith("logs of node head: denied") for line in found.unknowns), found.unknowns


def test_a_log_that_fails_as_it_is_read(head: Head) -> None:
    (logs(head) / OTHER).unlink()
    (logs(head) / OTHER).symlink_to(OTHER)
    found = head.judged()
    assert found.state is State.CANNOT_TELL
    assert any("failed" in line for line in found.unknowns), found.unknowns


def test_a_dead_actor_whose_own_log_was_not_read_is_not_confirmed(head: Head) -> None:
    head.actors = [died(4242, "SIGABRT received")]
    assert slugs(head.judged()) == [("actor-crashed", Certainty.CONFIRMED)]
    (logs(head) / OWN).chmod(0)
    found = head.judged()
    assert slugs(found) == [("actor-crashed", Certainty.LIKELY)]
    assert any("its log was not read (denied" in line for line in found.causes[0].evidence)


def test_the_log_of_a_dead_actor_is_read_however_many_were_written_after_it(head: Head) -> None:
    head.log(OWN, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    os.utime(logs(head) / OWN, (1, 1))
    for n in range(60):
        head.log(f"worker-cc33-02000000-{5000 + n}.out", "Training:  12%\n")
    head.actors = [died(4242, "SIGABRT received")]
    assert slugs(head.judged()) == [("actor-gpu-memory", Certainty.CONFIRMED)]


def test_a_kernel_log_that_may_not_be_read_is_named(head: Head, tmp_path: Path) -> None:
    """Nobody died, so nothing rests on it."""
    for name in ("dmesg", "journalctl"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'read kernel buffer failed: Operation not permitted' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    head.host = lambda name: InNamespace(name, ("env", f"PATH={tmp_path}:{os.environ['PATH']}"))
    found = head.judged()
    assert found.state is State.HEALTHY
    assert any("Operation not permitted" in line and "covered by actors" in line for line in found.unknowns), found.unknowns
