"""Incidents in which the pod's log or the orchestrator's own lines say more than what was believed: the orchestrator on loopback."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Diagnosis, State
from runbooks.spawning.diagnose import Limits, diagnose
from runbooks.spawning.evidence import PodRead
from tasks.report_store import reports_root, save
from tests.core import samples
from tests.tasks.spawning import conftest
from tests.tasks.spawning.conftest import WORKER, World

postgres, pod_sshd, world = conftest.postgres, conftest.pod_sshd, conftest.world
KIND = "NVIDIA GeForce RTX 4090"
REFUSAL = "There are no longer any instances available with the requested specifications. Please refresh and try again."
RSYNC = (
    'rsync: [generator] chown "/root/.sky/.runtime_files/." failed: Invalid argument (22)',
    'rsync: [receiver] chown "/root/.sky/.runtime_files/a" failed: Invalid argument (22)',
    "rsync(25139): warning: child 25141 exited with status 23",
)


def first(d: Diagnosis) -> str:
    return f"{d.causes[0].slug} {d.causes[0].certainty}" if d.causes else "none"


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def silent(w: World, started_s: float, *more: str, age_s: float = 420) -> None:
    """A pod of that age, whose log says that its container was started so long ago; there is none."""
    w.row(age_s=age_s)
    lines = (f"{ago(age_s)} create container org/app:1", f"{ago(age_s - 2)} c7de18f1cb15 Pull complete",
             f"{ago(started_s)} start container for org/app:1: begin", *more)  # fmt: skip
    w.pod(age_s=age_s, pull_s=9999, log=lines)


@pytest.mark.incident("T2-20", came="right", fed="readers", known=True)
def test_the_start_script_died(world: World) -> None:
    silent(world, 389, "/start.sh: line 3: curl: (22) The requested URL returned error: 429")
    d = world.look()[1]
    assert first(d) == "start-command-fails likely", d.model_dump_json(indent=1)
    assert "returned error: 429" in str(d.causes[0].evidence)
    assert d.state is State.UNHEALTHY
    assert d.plans == ()
    assert any("wait longer" in x for x in d.must_not)


@pytest.mark.incident("T2-20", came="right", fed="readers", known=True, twin="the container was started ten seconds ago")
def test_it_comes_up_this_moment(world: World) -> None:
    silent(world, started_s=10)
    d = world.look()[1]
    assert (first(d), d.state) == ("image-pulling likely", State.HEALTHY)


@pytest.mark.incident("T2-20", came="right", fed="readers", known=True, twin="the log says that the image is being pulled")
def test_the_image_is_pulled(world: World) -> None:
    silent(world, 389, f"{ago(5)} c7de18f1cb15 Downloading [=>  ]  4.86MB/9.2GB")
    d = world.look()[1]
    assert (first(d), d.state) == ("image-pulling confirmed", State.HEALTHY)


@pytest.mark.incident("T2-20", came="open", fed="readers", known=True, twin="the log is lost")
def test_without_the_log_nothing_is_well(world: World) -> None:
    silent(world, 389)
    e, _ = world.look()
    d = diagnose(e.model_copy(update={"pod_log": Unknown(reason=UnknownReason.TIMED_OUT)}), Limits.model_validate(world.context().limits))
    assert d.state is State.CANNOT_TELL, d.headline
    assert d.plans == ()


def remember(w: World, pod: str, took_s: float) -> None:
    """A report of an earlier run that saw a pod of the same image up, its container `took_s` after its start."""
    started = datetime.now(UTC).timestamp() - 1000
    w.runpod.add(pod, name="gpu-old", started=started, port=w.sshd.port)
    w.row(pod=pod, id=f"w-{pod}", age_s=1000)
    context = w.context(f"worker/w-{pod}")
    e, _ = w.look(context)
    assert isinstance(e.pod, Known)
    read = e.pod.value[-1]
    assert read.pod is not None
    up = read.pod.model_copy(update={"uptime_s": read.at.timestamp() - started - took_s})  # the stand-in has no container of its own
    e = e.model_copy(update={"pod": Known[tuple[PodRead, ...]](value=(read.model_copy(update={"pod": up}),))})
    told = samples.report(runbook="stuck-spawning", target=f"worker/w-{pod}", evidence=e.model_dump(mode="json"))
    assert save(told, "", reports_root(context.fleet.reports.folder)).record


@pytest.mark.incident("T2-19", came="right", fed="readers", known=True)
def test_the_copy_failed_and_not_the_start(world: World) -> None:
    world.row()
    world.pod()
    world.railway.say(f"{WORKER}: provisioning, phase internal_file_mounts")
    for line in RSYNC:
        world.railway.say(line)
    world.railway.cycle()
    d = world.look()[1]
    assert first(d) == "setup-step-failed likely", d.model_dump_json(indent=1)
    assert "chown" in str(d.causes[0].evidence)
    assert d.plans == ()
    assert any("terminate and respawn" in x for x in d.must_not)


@pytest.mark.incident("T2-19", came="right", fed="readers", known=True, twin="the copy worked")
def test_without_a_failed_step_it_was_never_started(world: World) -> None:
    world.row()
    world.pod()
    world.railway.say(f"{WORKER}: provisioning, phase internal_file_mounts done")
    assert first(world.look()[1]) == "worker-not-started confirmed"


@pytest.mark.incident("T2-19", came="right", fed="readers", known=True, twin="the failed copy was another worker's")
def test_another_workers_failure_is_not_this_ones(world: World) -> None:
    world.row()
    world.pod()
    world.railway.say(f"{WORKER}: provisioning, phase internal_file_mounts done")
    world.railway.say("gpu-20260101_000001-bb: provisioning, phase internal_file_mounts")
    for line in RSYNC:
        world.railway.say(line)
    assert first(world.look()[1]) == "worker-not-started confirmed"


@pytest.mark.incident("T2-19", came="right", fed="readers", known=True, twin="a second try of the copy worked and the worker was started")
def test_a_step_that_it_got_past(world: World) -> None:
    world.row()
    world.pod()
    world.railway.say(f"{WORKER}: provisioning, phase internal_file_mounts")
    for line in RSYNC:
        world.railway.say(line)
    world.railway.say(f"{WORKER}: startup completed")
    d = world.look()[1]
    assert first(d) == "worker-died confirmed", d.headline
    assert "startup completed" in str(d.causes[0].evidence)


@pytest.mark.incident("T2-balance", came="right", fed="readers", known=True)
def test_no_credit_at_the_create_call(world: World) -> None:
    world.row(pod="")
    world.railway.say("runpod.error.QueryError: Your account balance is too low to create this pod. Please add funds.")
    d = world.look()[1]
    assert first(d) == "out-of-credit likely", d.model_dump_json(indent=1)
    assert d.plans == (), "no row is marked: the next create call would fail alike"


@pytest.mark.incident("T2-balance", came="right", fed="readers", known=True, twin="nothing was refused")
def test_a_row_without_a_pod_and_without_a_word(world: World) -> None:
    world.row(pod="")
    assert first(world.look()[1]) == "pod-never-existed confirmed"


@pytest.mark.incident("T2-row-8s", came="open", fed="readers", known=True)
def test_a_row_eight_seconds_old_has_no_pod_that_is_gone(world: World) -> None:
    world.row(age_s=8)
    d = world.look()[1]
    assert (first(d), d.state, d.plans) == ("pod-gone possible", State.CANNOT_TELL, ())
    assert "s old" in d.headline


@pytest.mark.incident("T2-row-8s", came="right", fed="readers", known=True, twin="the row is fifteen minutes old")
def test_an_old_row_whose_pod_is_gone(world: World) -> None:
    world.row()
    d = world.look()[1]
    assert (first(d), [p.name for p in d.plans]) == ("pod-gone confirmed", ["mark the row"])


@pytest.mark.incident("T2-cloud-type", came="right", fed="readers", known=True)
def test_stock_in_the_other_cloud_alone(world: World) -> None:
    world.row(pod="")
    world.railway.variables |= {"RUNPOD_GPU_TYPE": KIND, "RUNPOD_CLOUD_TYPE": "SECURE"}
    world.railway.say(REFUSAL)
    world.runpod.stock = {(KIND, "US-TX-3/COMMUNITY"): "High"}
    d = world.look()[1]
    assert first(d) == "request-too-narrow confirmed", d.model_dump_json(indent=1)
    assert "SECURE" in d.headline
    world.runpod.stock = {(KIND, "US-TX-3"): "High"}
    assert first(world.look()[1]) == "no-capacity possible", "the asked cloud has it by now"
    world.runpod.stock = {}
    assert first(world.look()[1]) == "no-capacity confirmed"


@pytest.mark.incident("T2-cloud-type", came="right", fed="readers", known=True, twin="the pinned place has it in the other cloud alone")
def test_the_cloud_narrows_the_place(world: World) -> None:
    world.row(pod="")
    world.railway.variables |= {"RUNPOD_GPU_TYPE": KIND, "RUNPOD_CLOUD_TYPE": "SECURE", "RUNPOD_DATA_CENTER": "EU-RO-1"}
    world.railway.say(REFUSAL)
    world.runpod.stock = {(KIND, "EU-RO-1/COMMUNITY"): "Low", (KIND, "US-TX-3"): "High"}
    d = world.look()[1]
    assert first(d) == "request-too-narrow confirmed", d.model_dump_json(indent=1)
    assert "EU-RO-1 in that cloud" in str(d.causes[0].evidence)


@pytest.mark.incident("SP01", came="right", fed="readers", known=True)
def test_an_image_that_is_usually_up_in_half_a_minute(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Own history: no line of a pull, and seven minutes are usual for a large image only."""
    monkeypatch.setenv("GPU_RUNBOOKS_REPORTS", str(tmp_path / "reports"))
    world.row(age_s=420)
    world.pod(age_s=420, pull_s=9999)
    d = world.look()[1]
    assert (first(d), d.state) == ("image-pulling likely", State.HEALTHY)
    for n, took in enumerate((31, 28, 40)):
        remember(world, f"old{n}", took)
    e, d = world.look()
    assert isinstance(e.usual, Known), e.usual
    assert sorted(e.usual.value.seconds) == pytest.approx([28, 31, 40], abs=1.5)
    assert (first(d), d.state) == ("no-container likely", State.UNHEALTHY), d.headline
    assert "3 earlier starts of this image" in str(d.causes[0].evidence)
