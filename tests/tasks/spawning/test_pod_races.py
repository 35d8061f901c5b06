"""Somebody who changes pod, rows or variable between the looks and the call, and in the moment that remains."""

from collections.abc import Callable
from functools import partial

import pytest

from runbooks.core.plan import Step
from tasks.clients.railway import RailwayClient
from tasks.clients.runpod import RunPodClient
from tasks.clients.worker_db import SqlDb
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.unseen import UNSEEN
from tasks.spawning.act_pods import stop_pod, terminate_pod
from tasks.spawning.act_variables import set_railway_variable
from tasks.transport.base import TransportError
from tests.support.racing import meanwhile
from tests.tasks.spawning.conftest import POD, WORKER, World
from tests.tasks.spawning.test_world import key_missing, no_gpus, step_of

Act = Callable[[Step, Context], ActionResult]
OF_THE_POD: dict[str, tuple[object, str]] = {
    "locked": (True, "is locked"), "machine": ("machine-2", "machine-2"), "desired": ("EXITED", "EXITED"), "name": ("x", "named 'x'"),
}  # fmt: skip
LOOKS = (((RunPodClient, "pod"), ("locked",)), ((SqlDb, "tasks"), ("desired",)), ((SqlDb, "worker"), tuple(OF_THE_POD)))
BEATS = "UPDATE workers SET last_heartbeat = now() WHERE id = $1"
CLAIM = "INSERT INTO tasks VALUES ('t1', 'In Progress', $1, now())"


def calls(world: World) -> int:
    """How often a pod was ended or stopped."""
    return world.runpod.count("DELETE") + world.runpod.count("/stop")


def racing(act: Act, kind: str, world: World) -> None:
    """The pod is another after each look but the last; the worker takes a task or reports before its rows are read, or after."""
    no_gpus(world)
    step, pod = step_of(world.look()[1], kind), world.runpod.pods[POD]
    for (owner, name), field in [(look, field) for look, fields in LOOKS for field in fields]:
        old, (value, words) = getattr(pod, field), OF_THE_POD[field]
        other = partial(setattr, pod, field, value)
        with meanwhile(owner, name, other), pytest.raises(ActionRefused, match=words):
            act(step, world.context())
        setattr(pod, field, old)
    for sql, words, owner, name in ((BEATS, "reports", SqlDb, "tasks"), (CLAIM, "holds t1", RunPodClient, "pod")):
        with meanwhile(owner, name, partial(world.db.do, sql, WORKER)), pytest.raises(ActionRefused, match=words):
            act(step, world.context())
        world.db.do("TRUNCATE tasks")
        world.db.do("UPDATE workers SET last_heartbeat = NULL")
    assert calls(world) == 0
    late = meanwhile(RunPodClient, "pod", partial(world.db.do, CLAIM, WORKER), turn=2)
    with late, pytest.raises(TransportError, match=r"took a task.*holds t1"):
        act(step, world.context())
    assert calls(world) == 1


def test_a_pod_that_changes_while_it_is_ended(world: World) -> None:
    racing(terminate_pod, "terminate-pod", world)


def test_a_pod_that_changes_while_it_is_stopped(world: World) -> None:
    racing(stop_pod, "stop-pod", world)


def test_another_pod_of_that_name_stays(world: World) -> None:
    """Somebody ends the pod in the last moment and makes one of the same name: the call is about the id."""
    no_gpus(world)
    step = step_of(world.look()[1], "terminate-pod")

    def replace() -> None:
        del world.runpod.pods[POD]
        world.runpod.add("podnew1", name=WORKER)

    with meanwhile(RunPodClient, "terminate", replace, before=True), pytest.raises(ActionRefused, match="was gone when"):
        terminate_pod(step, world.context())
    assert list(world.runpod.pods) == ["podnew1"]


def test_somebody_sets_the_variable_between_the_looks_and_the_write(world: World) -> None:
    """Theirs stays at whatever look they come; in the moment that remains it does not, which the report says."""
    key_missing(world)
    step, name = step_of(world.look()[1], "set-railway-variable"), "RUNPOD_SSH_PRIVATE_KEY"
    theirs = world.sshd.host_keys[0].read_text()

    def write() -> None:
        world.railway.variables[name] = theirs

    for call, before in (("sealed", True), ("variables", True), ("sealed", False)):
        with meanwhile(RailwayClient, call, write, before=before), pytest.raises(ActionRefused, match="by now"):
            set_railway_variable(step, world.context())
        assert world.railway.variables.pop(name) == theirs
    seal = meanwhile(RailwayClient, "sealed", lambda: world.railway.sealed.add(name), before=True)
    with seal, pytest.raises(ActionRefused, match="by now"):
        set_railway_variable(step, world.context())
    world.railway.sealed.clear()
    with meanwhile(RailwayClient, "set_variable", write, before=True):
        said = set_railway_variable(step, world.context()).said
    assert UNSEEN in said
    assert world.railway.variables[name] == world.sshd.key.read_text()
