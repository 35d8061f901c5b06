"""A worker at work is a job's actor only by its node, its number in the raylet's PID namespace, and the time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known, Source
from runbooks.core.same_process import MACHINE
from runbooks.ray.company import groups
from runbooks.ray.evidence import Actor, Evidence, NodeLogs, RayJob, WorkerActivity
from runbooks.ray.limits import Limits

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
LIMITS = Limits(**load_runbook("ray-job").limit_values())
INSIDE = 4026532500


def at_work(worker: dict[str, Any], actor: dict[str, Any] | None = None, namespace: int | None = INSIDE) -> bool:
    """Whether the job counts as at work, beside one worker that uses its CPU on 10.0.0.2."""
    usual = {"node": "b", "pid": 9001, "own_pid": 42, "namespace": INSIDE, "age_s": 600, "command": "ray::T", "cpu_s": 2}
    seen = WorkerActivity(**usual | worker)
    source = Source(command="x", host="b", taken_at=AT)
    node = NodeLogs(node="b", ip="10.0.0.2", window_s=2, namespace=namespace, activity=(seen,))
    mine = Actor(**{"actor_id": "a", "class_name": "T", "state": "ALIVE", "job_id": "02", "pid": 42, "ip": "10.0.0.2"} | (actor or {}))
    evidence = Evidence(
        cluster="head", taken_at=AT, job=Known(value=RayJob(submission_id="s", job_id="02", status="RUNNING")),
        actors=Known(value=(mine,), source=source), node_logs=(Known(value=node, source=source),),
    )  # fmt: skip
    return bool(next(g for g in groups(evidence, LIMITS) if g.name == "job s").at_work)


def test_the_number_inside_the_container_counts() -> None:
    assert at_work({})


@pytest.mark.parametrize(
    ("worker", "actor"),
    [
        ({"pid": 42, "own_pid": 7}, {}),  # the machine's number is the actor's by chance
        ({"namespace": MACHINE}, {}),  # a worker outside the container
        ({}, {"ip": "10.0.0.3"}),  # another node's
        ({"age_s": 1}, {}),  # it began after the head had listed the actor
        ({}, {"pid": 0}),  # it has no process yet
    ],
)
def test_a_twin_is_not_the_actor(worker: dict[str, Any], actor: dict[str, Any]) -> None:
    assert not at_work(worker, actor)


def test_where_the_place_is_not_known_it_may_be_the_actor_and_is_not_ended() -> None:
    assert at_work({}, namespace=None)
    assert at_work({}, {"ip": "", "node_id": "f" * 56})
