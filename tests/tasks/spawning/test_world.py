"""stuck-spawning end to end on a real PostgreSQL, a real sshd, and stand-ins of provider and platform."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deployments.lab.sshd import make_key, public_key
from runbooks.core.plan import Step
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Diagnosis, State
from tasks.context import ActionRefused, Context
from tasks.spawning.act_pods import start_worker, start_worker_unverified, stop_pod, terminate_pod
from tasks.spawning.act_rows import mark_worker_row
from tasks.spawning.act_variables import set_railway_variable
from tests.tasks.spawning.conftest import POD, WORKER, World

ACTS: dict[str, Callable[[Step, Context], object]] = {
    "terminate-pod": terminate_pod,
    "start-worker": start_worker,
    "start-worker-unverified": start_worker_unverified,
    "mark-worker-row": mark_worker_row,
}


def first(d: Diagnosis) -> str:
    return f"{d.causes[0].slug} {d.causes[0].certainty}" if d.causes else "none"


def step_of(d: Diagnosis, kind: str) -> Step:
    return next(s for p in d.plans for s in p.steps if s.kind == kind)


def pulling(w: World) -> None:
    w.row(age_s=400)
    w.pod(
        age_s=400, pull_s=9999, log=("2026 latest Pulling from org/app", "c7de18f1cb15 Downloading [=> ]  4.8MB/4.1GB")
    )


def uid(w: World) -> None:
    w.row()
    w.pod(
        pull_s=9999,
        log=(
            "Extracting [=>] 1GB/1GB",
            "failed to pull image: failed to register layer: Container ID 7 cannot be mapped to a host ID",
        ),
    )


def gone(w: World) -> None:
    w.row()


def outbid(w: World) -> None:
    w.row()
    w.pod(desired="EXITED", change="Outbid: Mon Aug 04 2025")


def credit(w: World) -> None:
    w.row()
    w.pod(desired="EXITED", change="Exited by Runpod: insufficient credit")


def by_user(w: World) -> None:
    w.row()
    w.pod(desired="EXITED", change="Exited by user: Mon Aug 04 2025")


def no_gpus(w: World) -> None:
    w.row()
    w.pod(gpus=0)


def no_port(w: World) -> None:
    w.row()
    w.pod(ports=("8888/http",))


def no_sshd(w: World) -> None:
    w.row()
    w.pod(port=1)


def never_started(w: World) -> None:
    w.row()
    w.pod()


def died(w: World) -> None:
    never_started(w)
    w.log.parent.mkdir()
    w.log.write_text("starting\nTraceback (most recent call last)\nRuntimeError: CUDA error: out of memory\n")


def orchestrator_down(w: World) -> None:
    never_started(w)
    w.railway.lines = []
    w.railway.cycle(datetime.now(UTC) - timedelta(hours=1))


def key_missing(w: World) -> None:
    never_started(w)
    w.railway.variables.pop("RUNPOD_SSH_PRIVATE_KEY")


def never_existed(w: World) -> None:
    w.row(pod="")


def old_heartbeat(w: World) -> None:
    w.row(status="active", beat_s=3600)
    w.pod()


CASES = [
    (pulling, "image-pulling confirmed", State.HEALTHY, ()),
    (uid, "image-unpullable confirmed", State.UNHEALTHY, ()),
    (gone, "pod-gone confirmed", State.UNHEALTHY, ("mark-worker-row",)),
    (never_existed, "pod-never-existed confirmed", State.UNHEALTHY, ("mark-worker-row",)),
    (outbid, "outbid confirmed", State.UNHEALTHY, ("terminate-pod",)),
    (credit, "out-of-credit confirmed", State.UNHEALTHY, ()),
    (by_user, "pod-stopped-by-user confirmed", State.UNHEALTHY, ()),
    (no_gpus, "gpus-lost-on-resume confirmed", State.UNHEALTHY, ("stop-pod", "terminate-pod")),
    (no_port, "port-22-not-exposed confirmed", State.UNHEALTHY, ("stop-pod", "terminate-pod")),
    (no_sshd, "no-sshd-in-image confirmed", State.UNHEALTHY, ()),
    (died, "worker-died confirmed", State.UNHEALTHY, ("stop-pod", "terminate-pod")),
    (never_started, "worker-not-started confirmed", State.UNHEALTHY, ("start-worker-unverified",)),
    (orchestrator_down, "orchestrator-down confirmed", State.UNHEALTHY, ("restart-service", "start-worker-unverified")),
    (key_missing, "private-half-missing confirmed", State.UNHEALTHY, ("set-railway-variable", "start-worker-unverified")),
    (old_heartbeat, "worker-died confirmed", State.UNHEALTHY, ("start-worker-unverified", "stop-pod", "terminate-pod")),
]


@pytest.mark.parametrize(("make", "want", "state", "steps"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_each_way_to_stay_in_spawning(
    world: World, make: Callable[[World], None], want: str, state: State, steps: tuple[str, ...]
) -> None:
    make(world)
    evidence, d = world.look()
    shown = f"{d.headline}\n{d.model_dump_json(indent=1)}\n{evidence.model_dump_json(indent=1)}"
    assert first(d) == want, shown
    assert d.state is state, shown
    assert tuple(s.kind for p in d.plans for s in p.steps) == steps, shown
    assert d.must_not


def test_one_null_runtime_or_a_failing_api_is_no_death(world: World) -> None:
    world.row(age_s=60)
    world.pod(age_s=60, runtime_fails=True)
    _, d = world.look()
    assert not any(c.slug in ("pod-gone", "no-container") and c.certainty != "possible" for c in d.causes)
    assert not d.plans
    for status, why in ((429, UnknownReason.FAILED), (500, UnknownReason.FAILED), (401, UnknownReason.DENIED)):
        world.runpod.fail = [status] * 20
        evidence, d = world.look()
        assert isinstance(evidence.pod, Unknown)
        assert evidence.pod.reason is why
        assert not d.plans, status
        assert d.unknowns
    world.runpod.fail, world.runpod.slow_s = [], 0.6
    fields = world.fleet().model_dump(mode="json")["orchestrator"]["runpod"]
    world.fields["runpod"] = fields | {"timeout_s": 0.25}
    evidence, d = world.look()
    assert isinstance(evidence.pod, Unknown)
    assert evidence.pod.reason is UnknownReason.TIMED_OUT


def test_a_worker_is_started_once_and_proven(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.spawning.act_pods.WATCH_S", 0.3)
    never_started(world)
    _, d = world.look()
    step = step_of(d, "start-worker-unverified")
    context = world.context()
    start_worker_unverified(step, context)
    evidence, d = world.look()
    assert isinstance(evidence.inside, Known)
    pids = [p.pid for p in evidence.inside.value.processes]
    try:
        assert pids
        assert "worker-not-started" not in [c.slug for c in d.causes]
        with pytest.raises(ActionRefused, match="runs already"):
            start_worker_unverified(step, world.context())
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    _, d = world.look()
    assert first(d) == "worker-died confirmed"  # it left a log


def test_a_start_is_refused_with_a_live_claim_and_after_a_reboot(world: World) -> None:
    never_started(world)
    _, d = world.look()
    step = step_of(d, "start-worker-unverified")
    with pytest.raises(ActionRefused, match="booted again"):
        start_worker_unverified(step.model_copy(update={"args": {**step.args, "boot_id": "another"}}), world.context())
    world.db.do("INSERT INTO tasks VALUES ('t1', 'In Progress', $1, now())", WORKER)
    with pytest.raises(ActionRefused, match="holds t1"):
        start_worker_unverified(step, world.context())
    _, d = world.look()
    assert not d.plans
    assert any("holds a claim" in x for x in d.do_now)


def test_the_first_key_of_a_pod_is_recorded_and_another_is_refused(world: World) -> None:
    never_started(world)
    evidence, _ = world.look()
    assert isinstance(evidence.ssh, Known)
    assert evidence.ssh.value.first_seen
    trust = world.folder / "trust.json"
    known = json.loads(trust.read_text())
    assert known[POD]["machine"] == "machine-1"
    assert known[POD]["trust"] == "first-seen"
    evidence, d = world.look()
    assert isinstance(evidence.ssh, Known)
    assert evidence.ssh.value.first_seen, "having been seen once more vouches for nothing"
    step = step_of(d, "start-worker-unverified")
    with pytest.raises(ActionRefused, match="nobody vouches"):
        start_worker(step.model_copy(update={"kind": "start-worker"}), world.context())
    known[POD]["key"] = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    trust.write_text(json.dumps(known))
    evidence, d = world.look()
    assert first(d) == "pod-host-key-changed confirmed"
    assert not d.plans
    assert json.loads(trust.read_text()) == known


def start_script(world: World, key: Path) -> tuple[str, ...]:
    """What RunPod's own start script prints."""
    mark = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True).stdout
    return ("start container", "SSH host keys:", "Key: /etc/ssh/ssh_host_ed25519_key.pub", mark.strip())


def test_a_key_that_the_start_script_published_needs_no_person_and_another_is_refused(world: World) -> None:
    never_started(world)
    world.look()
    pod = world.runpod.pods[POD]
    pod.log = start_script(world, world.sshd.host_keys[0])
    evidence, d = world.look()
    assert isinstance(evidence.ssh, Known)
    assert evidence.ssh.value.trust == "published"
    assert [s.kind for p in d.plans for s in p.steps] == ["start-worker"]
    trust = world.folder / "trust.json"
    assert json.loads(trust.read_text())[POD]["machine"] == "machine-1"
    trust.unlink()
    pod.log = start_script(world, make_key(world.folder / "another"))
    evidence, d = world.look()
    assert first(d) == "pod-host-key-changed confirmed", d.model_dump_json(indent=1)
    assert "published SHA256" in str(d.causes[0].evidence)
    assert not trust.exists()
    assert not d.plans
    world.fields["ssh"] = {
        "user": "root",
        "trust_file": str(trust),
        "host_keys": {POD: public_key(world.sshd.host_keys[0])},
    }
    evidence, d = world.look()
    assert isinstance(evidence.ssh, Known)
    assert evidence.ssh.value.trust == "pinned"
    assert [s.kind for p in d.plans for s in p.steps] == ["start-worker"]


def test_a_pod_is_stopped_once_and_its_tasks_are_listed(world: World) -> None:
    died(world)
    world.db.do("INSERT INTO tasks VALUES ('t1', 'In Progress', $1, now())", WORKER)
    _, d = world.look()
    step = step_of(d, "stop-pod")
    assert "t1" in step.loses
    assert "t1" in step_of(d, "terminate-pod").loses
    world.db.do("INSERT INTO tasks VALUES ('t2', 'In Progress', $1, now())", WORKER)
    with pytest.raises(ActionRefused, match="t2"):
        stop_pod(step, world.context())
    world.db.do("DELETE FROM tasks WHERE id = 't2'")
    stop_pod(step, world.context())
    with pytest.raises(ActionRefused, match="EXITED"):
        stop_pod(step, world.context())
    assert world.runpod.count("/stop") == 1
    _, d = world.look()
    assert first(d) == "pod-stopped-by-user confirmed"


def test_it_waits_and_looks_again_within_bounds(world: World) -> None:
    pulling(world)
    pod = world.runpod.pods[POD]
    context = world.context()
    context.options["wait"] = "1"
    context.limits["wait_step_s"] = 0.2
    began = time.monotonic()
    evidence, d = world.look(context)
    assert 1 <= time.monotonic() - began < 15
    assert first(d) == "image-pulling confirmed"
    assert evidence.waited_s >= 1
    pod.pull_s = time.time() - pod.started + 1.0
    context.options["wait"] = "60"
    began = time.monotonic()
    evidence, d = world.look(context)
    assert time.monotonic() - began < 30, "it ends when the pod comes up"
    assert isinstance(evidence.ssh, Known)
    assert first(d) == "worker-not-started confirmed"


def test_all_workers_past_their_limit_are_one_run(world: World) -> None:
    died(world)
    world.row(id="gpu-young", pod="podyoung", age_s=60)
    world.row(id="gpu-b", pod="podb", age_s=900)
    world.row(id="gpu-old", status="active", pod="podold", age_s=9000, beat_s=5000)
    context = world.context(target="workers")
    evidence, d = world.look(context)
    assert [e.worker for e in evidence.each] == ["gpu-20260101_000000-aa", "gpu-b"]
    slugs = [(c.slug, c.subject) for c in d.causes]
    assert ("worker-died", f"worker {WORKER}") in slugs
    assert ("pod-gone", "pod podb") in slugs
    assert ("heartbeat-old", "worker gpu-old") in slugs
    assert sum(s == "row-without-pod" for s, _ in slugs) == 1
    assert world.runpod.count("GET /v1/pods ") <= 2
    assert f"end the pod: {WORKER}" in [p.name for p in d.plans]
    assert d.state is State.UNHEALTHY


def test_a_pod_is_ended_once_and_only_as_it_was_judged(world: World) -> None:
    no_gpus(world)
    _, d = world.look()
    step = step_of(d, "terminate-pod")
    assert "container disk" in step.loses
    pod = world.runpod.pods[POD]
    for field, value, words in (
        ("locked", True, "locked"),
        ("machine", "machine-2", "machine-2"),
        ("desired", "EXITED", "EXITED"),
    ):
        old = getattr(pod, field)
        setattr(pod, field, value)
        with pytest.raises(ActionRefused, match=words):
            terminate_pod(step, world.context())
        setattr(pod, field, old)
    world.db.do("INSERT INTO tasks VALUES ('t1', 'In Progress', $1, now())", WORKER)
    with pytest.raises(ActionRefused, match="t1"):
        terminate_pod(step, world.context())
    world.db.do("TRUNCATE tasks")
    world.db.do("UPDATE workers SET last_heartbeat = now()")
    with pytest.raises(ActionRefused, match="reports"):
        terminate_pod(step, world.context())
    world.db.do("UPDATE workers SET last_heartbeat = NULL")
    assert world.runpod.count("DELETE") == 0
    terminate_pod(step, world.context())
    assert POD not in world.runpod.pods
    with pytest.raises(ActionRefused, match="gone already"):
        terminate_pod(step, world.context())
    assert world.runpod.count("DELETE") == 1
    _, d = world.look()
    assert first(d) == "pod-gone confirmed"


def test_a_worker_older_than_the_newest_rows_is_looked_at_and_spared(world: World) -> None:
    """Rows outlive their workers: 600 newer ones must not make one that reports look gone."""
    no_gpus(world)
    step = step_of(world.look()[1], "terminate-pod")
    world.db.do("INSERT INTO workers SELECT 'gpu-ended-' || n, 'terminated', now(), NULL, now() FROM generate_series(1, 600) n")
    e, _ = world.look()
    assert isinstance(e.row, Known)
    assert (e.row.value.id, e.row.value.pod_id) == (WORKER, POD)
    world.db.do("UPDATE workers SET last_heartbeat = now() WHERE id = $1", WORKER)
    with pytest.raises(ActionRefused, match="reports"):
        terminate_pod(step, world.context())
    assert world.runpod.count("DELETE") == 0
    e, d = world.look(world.context("worker/gpu-nobody"))
    assert isinstance(e.row, Absent)
    assert (d.state, d.headline) == (State.NOT_APPLICABLE, "no worker gpu-nobody: no row of that id")


def test_no_pod_is_ended_without_a_cycling_orchestrator_or_in_a_storm(world: World) -> None:
    no_gpus(world)
    for i in range(3):
        world.row(id=f"gpu-other{i}", pod=f"other{i}", age_s=600)
    _, d = world.look()
    assert not d.plans
    assert any("of 4 spawns" in x for x in d.do_now)
    world.db.do("DELETE FROM workers WHERE id LIKE 'gpu-other%'")
    world.railway.lines = []
    _, d = world.look()
    assert not d.plans
    assert any("not seen cycling" in x for x in d.do_now)


def test_a_row_is_marked_only_as_it_was_read(world: World) -> None:
    gone(world)
    _, d = world.look()
    step = step_of(d, "mark-worker-row")
    world.db.do("UPDATE workers SET last_heartbeat = now()")
    with pytest.raises(ActionRefused):
        mark_worker_row(step, world.context())
    world.db.do("UPDATE workers SET last_heartbeat = NULL")
    mark_worker_row(step, world.context())
    assert world.db.do("SELECT status FROM workers")[0]["status"] == "terminated"
    with pytest.raises(ActionRefused):
        mark_worker_row(step, world.context())
    _, d = world.look()
    assert d.state is State.HEALTHY


def test_a_row_that_changes_between_the_look_and_the_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The orchestrator gives it another pod, beats or sets its status in that very moment: one statement compares them all."""
    from tasks.clients.worker_db import SqlDb

    gone(world)
    step = step_of(world.look()[1], "mark-worker-row")
    real = SqlDb.worker
    before = world.db.do("SELECT * FROM workers")
    for change in ("runpod_id = 'another'", "runpod_id = NULL", "last_heartbeat = now()", "status = 'active'"):

        def late(db: SqlDb, id: str, change: str = change) -> object:
            found = real(db, id)
            world.db.do("UPDATE workers SET " + change)  # noqa: S608
            return found

        with monkeypatch.context() as patch:
            patch.setattr(SqlDb, "worker", late)
            with pytest.raises(ActionRefused, match="not as it was read"):
                mark_worker_row(step, world.context())
        world.db.do("UPDATE workers SET status = $1, last_heartbeat = $2, runpod_id = $3", *(before[0][k] for k in
                    ("status", "last_heartbeat", "runpod_id")))  # fmt: skip
    mark_worker_row(step, world.context())
    assert world.db.do("SELECT status FROM workers")[0]["status"] == "terminated"


def test_a_reading_role_is_enough_to_diagnose(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gone(world)
    monkeypatch.setenv("DATABASE_URL", world.db.reader_url)
    _, d = world.look()
    assert first(d) == "pod-gone confirmed"
    from tasks.transport.base import TransportError

    with pytest.raises(TransportError) as e:
        mark_worker_row(step_of(d, "mark-worker-row"), world.context())
    assert e.value.reason is UnknownReason.DENIED
    world.db.do("GRANT UPDATE (status) ON workers TO reader")  # what README's table gives for acting
    try:
        mark_worker_row(step_of(d, "mark-worker-row"), world.context())
    finally:
        world.db.do("REVOKE UPDATE (status) ON workers FROM reader")


def test_a_worker_that_comes_up_by_itself_is_left_alone(world: World) -> None:
    gone(world)
    _, d = world.look()
    step = step_of(d, "mark-worker-row")
    world.db.do("UPDATE workers SET status = 'active', last_heartbeat = now()")
    with pytest.raises(ActionRefused):
        mark_worker_row(step, world.context())


def test_leaks_and_held_tasks_are_reported_and_nothing_is_done(world: World) -> None:
    world.row(status="active", beat_s=10)
    world.pod()
    world.runpod.add("leak1", name="gpu-leak", started=time.time() - 3000)
    world.runpod.add("theirs", name="someone-else", started=time.time() - 3000)
    world.db.do("INSERT INTO tasks VALUES ('t9', 'In Progress', 'gpu-dead', now())")
    _, d = world.look()
    slugs = [(c.slug, c.subject) for c in d.causes]
    assert ("pod-without-row", "pod leak1") in slugs
    assert not any("theirs" in subject for _, subject in slugs)
    assert "task-held-by-dead-worker" in [s for s, _ in slugs]
    steps = [s for p in d.plans for s in p.steps]
    assert all(s.args.get("pod") == POD for s in steps), "nothing is offered about other pods"


def test_database_down_is_cannot_tell(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app@127.0.0.1:1/postgres")
    evidence, d = world.look()
    assert isinstance(evidence.row, Unknown)
    assert evidence.row.reason is UnknownReason.UNREACHABLE
    assert d.state is State.CANNOT_TELL
    assert not d.plans


def test_a_missing_variable_is_set_once_and_never_shown(world: World) -> None:
    key_missing(world)
    _, d = world.look()
    step = step_of(d, "set-railway-variable")
    key = world.sshd.key.read_text()
    assert key[60:90] not in d.model_dump_json()
    with pytest.raises(ActionRefused):
        set_railway_variable(
            step.model_copy(update={"args": {**step.args, "fingerprint": "SHA256:x"}}), world.context()
        )
    said = set_railway_variable(step, world.context()).said
    assert "-----BEGIN" not in str(said)
    assert world.railway.variables["RUNPOD_SSH_PRIVATE_KEY"] == key
    with pytest.raises(ActionRefused, match="by now"):
        set_railway_variable(step, world.context())
    _, d = world.look()
    assert "private-half-missing" not in [c.slug for c in d.causes]
