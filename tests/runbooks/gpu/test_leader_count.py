"""The leader's job count beside living processes: a finding, never a reset."""

from typing import Any

import pytest

from tests.runbooks.gpu.build import evidence, judge

MINE: dict[str, Any] = {"works": True, "state": "R", "job": "train", "nvidia_fds": ["/dev/nvidia0"]}


def judged(counted: int, *processes: dict[str, Any]) -> Any:
    pids = [p["pid"] for p in processes]
    gpus = [{"use": [90] * 3, "traffic": 40, "power": [500.0], "holders": {pid: 40}} for pid in pids] or [{}]
    leader = {"peers": {"node-a": [counted, 90.0, 5.0]}}
    given = {"gpus": gpus, "jobs": [{}], "leader": leader, "device_holders": pids, "processes": list(processes)}
    return judge(evidence(given))


def issues(d: Any) -> list[str]:
    return [f.issue for f in d.findings if f.category == "zombie-gpu/job-count"]


def test_more_are_counted_than_live() -> None:
    d = judged(3, MINE | {"pid": 500})
    assert issues(d) == ["the leader counts 3 jobs on node-a; live processes of 1 are here (pid 500)"]
    assert not d.plans


@pytest.mark.parametrize("counted", [0, 1])
def test_the_count_fits(counted: int) -> None:
    assert issues(judged(counted, MINE | {"pid": 500})) == []


def test_two_ranks_of_one_launcher_are_one_job() -> None:
    run = {"MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    ranks = [MINE | {"pid": 500 + i, "run": run | {"RANK": str(i)}} for i in (0, 1)]
    assert issues(judged(2, *ranks)) == ["the leader counts 2 jobs on node-a; live processes of 1 are here (pid 500, 501)"]


def test_without_any_process_it_is_the_cause_itself() -> None:
    d = judged(2)
    assert issues(d) == []
    assert "job-without-process" in [c.slug for c in d.causes]
