"""Resetting a node's job count on a real leader, only once nothing is left of the jobs."""

from contextlib import ExitStack
from typing import Any

import pytest

from deployments.lab.leader import LabLeader
from runbooks.core.fleet import Leader
from runbooks.core.plan import Step
from tasks.context import ActionRefused, ActionResult
from tasks.gpu.act_leader import reset_node_jobs
from tasks.transport.base import TransportError
from tests.support.gpu_node import BOOT, context, identity, job, running


def step(lab: LabLeader, gone: list[dict[str, Any]] | None = None, **change: Any) -> Step:
    """The reset of node-a."""
    ended = [{"pid": p["pid"], "start_ticks": p["start_ticks"]} for p in gone or []]
    args = {"node": "node-a", "leader_url": lab.url, "gone": ended, "boot_id": BOOT} | change
    return Step(kind="reset-node-jobs", owner="leader", args=args, commands=("curl",), effect="0")


def act(lab: LabLeader, one: Step, tag: str = "lead", **fields: Any) -> ActionResult:
    """Do it."""
    leader = Leader(url=lab.url, timeout_s=2, **fields)
    return reset_node_jobs(one, context(jobs=(job(tag),), leader=leader))


def posts(lab: LabLeader) -> list[str]:
    """What was posted."""
    return [a for a in lab.asked if a.startswith("POST")]


def full() -> LabLeader:
    """A leader that counts three jobs on node-a."""
    return LabLeader(peers={"node-a": {"selfplay_jobs": 3}, "node-b": {"selfplay_jobs": 2}})


def test_the_count_goes_to_0_and_only_there() -> None:
    with full() as lab, running("sleep", tag="lead") as p:
        gone = [identity(p.pid)]
        p.kill()
        p.wait()
        said = act(lab, step(lab, gone)).said
        assert posts(lab) == ['POST /admin/reset_node_jobs {"node_id":"node-a"}']
        assert lab.peers["node-b"]["selfplay_jobs"] == 2
    assert f"gone ({gone[0]['pid']})" in said[0]
    assert "counted 3 jobs on node-a and counts 0 now" in said[1]


def test_a_live_process_is_refused() -> None:
    with full() as lab, running("sleep", tag="other") as p:
        with pytest.raises(ActionRefused, match=f"pid {p.pid} still lives"):
            act(lab, step(lab, [identity(p.pid)]))
        assert posts(lab) == []


def test_a_job_that_runs_unlisted_is_refused() -> None:
    with full() as lab, running("sleep", tag="lead") as p:
        with pytest.raises(ActionRefused, match=f"pid {p.pid} runs a job"):
            act(lab, step(lab))
        assert posts(lab) == []


def test_a_job_that_begins_while_the_leader_is_told_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the proof and the call: it is counted 0, so the step has failed and says whom it forgot."""
    from tasks.transport.http import HttpReader

    real = HttpReader.post
    with full() as lab, ExitStack() as stack:
        begun: list[int] = []

        def late(*args: Any, **more: Any) -> Any:
            begun.append(stack.enter_context(running("sleep", tag="lead")).pid)
            return real(*args, **more)

        monkeypatch.setattr(HttpReader, "post", late)
        with pytest.raises(TransportError, match="began in this very moment") as e:
            act(lab, step(lab))
        assert f"pid {begun[0]}" in str(e.value)


def test_a_pid_that_was_given_to_another_is_gone() -> None:
    with full() as lab, running("sleep", tag="other") as p:
        gone = [{**identity(p.pid), "start_ticks": 5}]
        assert "counts 0 now" in act(lab, step(lab, gone)).said[1]


def test_a_count_of_0_is_left_alone() -> None:
    with LabLeader(peers={"node-a": {"selfplay_jobs": 0}}) as lab:
        assert "nothing was posted" in act(lab, step(lab)).said[1]
        assert posts(lab) == []


@pytest.mark.parametrize(
    "lab", [LabLeader(node_id="x", leader_id="y", peers={"node-a": {"selfplay_jobs": 1}}), LabLeader()]
)
def test_a_follower_or_a_leader_that_knows_no_such_node_is_refused(lab: LabLeader) -> None:
    with lab:
        with pytest.raises(ActionRefused):
            act(lab, step(lab))
        assert posts(lab) == []


def test_another_leader_than_the_judged_one_is_refused() -> None:
    with full() as lab, pytest.raises(ActionRefused, match="does not name the leader"):
        act(lab, step(lab, leader_url="http://127.0.0.1:1"))


def test_a_leader_that_obeys_only_in_words_is_a_failure() -> None:
    with full() as lab:
        lab.obeys = False
        with pytest.raises(TransportError, match="still counts 3"):
            act(lab, step(lab))


def test_a_wrong_token_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "wrong-token-1")
    with full() as lab:
        lab.token = "right-token-1"
        with pytest.raises(TransportError, match="denied"):
            act(lab, step(lab), token_env="LAB_TOKEN")


def test_without_job_patterns_nothing_can_be_proven() -> None:
    with full() as lab, pytest.raises(ActionRefused, match="no job pattern"):
        reset_node_jobs(step(lab), context(leader=Leader(url=lab.url)))
