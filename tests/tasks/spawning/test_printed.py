"""The commands of a report, pasted into a shell, mark the row and start the worker that they name."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.lab.fake_railway import ACCOUNT_TOKEN, TOKEN
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.core.verdict import State
from tests.support.need import need_program
from tests.support.printed import by_hand
from tests.tasks.spawning.conftest import POD, WORKER, World
from tests.tasks.spawning.test_world import gone, key_missing, never_started, no_gpus, start_script, step_of

CREW = """CREATE OR REPLACE VIEW crew AS SELECT id AS "workerName", status AS state, created_at, last_heartbeat AS beat, updated_at,
 jsonb_build_object('pod', runpod_id) AS facts FROM workers"""
NAMES = {
    "table": "public.crew", "id": "workerName", "status": "state", "heartbeat": "beat", "metadata": "facts", "pod_id": "pod",
}  # fmt: skip


@pytest.mark.parametrize("own", [{}, {"url_env": "CREW_URL", "workers": NAMES}], ids=["usual names", "the fleet file's names"])
def test_a_row_is_marked(world: World, monkeypatch: pytest.MonkeyPatch, own: dict[str, object]) -> None:
    """By the names of the fleet file, and only while the row is as it was read."""
    need_program("psql", "postgresql-client")
    world.db.do(CREW)
    if own:
        monkeypatch.setenv("CREW_URL", world.db.url)
        monkeypatch.delenv("DATABASE_URL")
        world.fields["database"] = own
    gone(world)
    world.row(id="beside")
    step = step_of(world.look()[1], "mark-worker-row")
    for changed in ("last_heartbeat = now()", "runpod_id = 'another'"):
        world.db.do("UPDATE workers SET " + changed)  # noqa: S608
        assert by_hand([step]).stdout.strip() == "UPDATE 0", "another pod, or one that reports, is not what was judged"
        world.db.do("UPDATE workers SET last_heartbeat = NULL, runpod_id = $1", POD)
    done = by_hand([step])
    assert done.returncode == 0, done.stderr
    states = {r["id"]: r["status"] for r in world.db.do("SELECT id, status FROM workers")}
    assert states == {WORKER: "terminated", "beside": "spawning"}
    assert by_hand([step]).stdout.strip() == "UPDATE 0"
    assert world.look()[1].state is State.HEALTHY


def a_persons_ssh(world: World, folder: Path) -> dict[str, str]:
    """The environment of a person with a log-in of their own: the pod's key is asked about once, and said yes to."""
    config = folder / "ssh_config"
    config.write_text(
        f"IdentityFile {world.sshd.key}\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking accept-new\nBatchMode yes\n"
    )
    (folder / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    (folder / "ssh").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def published(world: World) -> None:
    """The pod's own log vouches for its key."""
    world.runpod.pods[POD].log = start_script(world, world.sshd.host_keys[0])


@pytest.mark.parametrize(("kind", "vouch"), [("start-worker-unverified", None), ("start-worker", published)])
def test_a_worker_is_started(world: World, tmp_path: Path, kind: str, vouch: Callable[[World], None] | None) -> None:
    """Through a real sshd; it writes where its worker writes, so that the next look reads its last words."""
    start = ("sh", "-c", f"echo 'it begins'; sleep 30; : {tmp_path.name}-worker")
    world.fields["process"] = world.fleet().model_dump()["orchestrator"]["process"] | {"start": start}
    never_started(world)
    if vouch:
        vouch(world)
    step, env = step_of(world.look()[1], kind), a_persons_ssh(world, tmp_path)
    rebooted = tuple(c.replace(step.args["boot_id"], "another") for c in step.commands)
    elsewhere: Step = step.model_copy(update={"commands": rebooted})
    assert by_hand([elsewhere], env=env).returncode != 0
    assert not world.log.exists()
    done = by_hand([step], env=env)
    assert done.returncode == 0, (step.commands, done.stderr)
    evidence, found = world.look()
    assert isinstance(evidence.inside, Known)
    pids = [p.pid for p in evidence.inside.value.processes]
    try:
        assert pids
        assert "worker-not-started" not in [c.slug for c in found.causes]
        assert world.log.read_text() == "it begins\n"
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("kind", "call"), [("terminate-pod", f"DELETE /v1/pods/{POD}"), ("stop-pod", f"POST /v1/pods/{POD}/stop")])
def test_a_pod_is_ended_or_stopped_by_its_id(world: World, kind: str, call: str) -> None:
    """By the address and the key's variable of the fleet file; a pod beside it stays, and another key ends nothing."""
    no_gpus(world)
    beside = world.runpod.add("beside1", name="gpu-beside", log=("start container",))
    step = step_of(world.look()[1], kind)
    assert by_hand([step], env={"RUNPOD_API_KEY": "another"}).returncode != 0
    assert world.runpod.pods[POD].desired == "RUNNING"
    done = by_hand([step])
    assert done.returncode == 0, (step.commands, done.stderr)
    assert world.runpod.count(call) == 2
    assert beside.desired == "RUNNING"
    assert POD not in world.runpod.pods or world.runpod.pods[POD].desired == "EXITED"
    assert "gpus-lost-on-resume" not in [c.slug for c in world.look()[1].causes]


@pytest.mark.parametrize("kind", ["project", "account"])
def test_a_variable_of_the_orchestrator_is_set(world: World, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """With its line ends, through the platform's documented API; the key stands in no command."""
    key_missing(world)
    token = {"project": TOKEN, "account": ACCOUNT_TOKEN}[kind]
    monkeypatch.setenv("RAILWAY_TOKEN", token)
    world.fields["railway"] = world.fleet().model_dump(exclude_none=True)["orchestrator"]["railway"] | {"token_kind": kind}
    step = step_of(world.look()[1], "set-railway-variable")
    key = world.sshd.key.read_text()
    assert key[60:90] not in str(step.commands)
    refused = by_hand([step], env={"RAILWAY_TOKEN": "another"})
    assert "Not Authorized" in refused.stdout
    assert world.railway.variables.get("RUNPOD_SSH_PRIVATE_KEY") != key
    done = by_hand([step])
    assert done.returncode == 0, (step.commands, done.stderr)
    assert world.railway.variables["RUNPOD_SSH_PRIVATE_KEY"] == key
    assert "private-half-missing" not in [c.slug for c in world.look()[1].causes]
