"""Incidents of workers that did not come up, from the first collection: the orchestrator on loopback."""

import pytest

from runbooks.core.verdict import Diagnosis, State
from tests.runbooks.spawning import build
from tests.tasks.spawning import conftest
from tests.tasks.spawning.conftest import World

postgres, pod_sshd, world = conftest.postgres, conftest.pod_sshd, conftest.world
LAYER = "c7de18f1cb15 Downloading [=>           ]   4.86MB/9.2GB"
EXTRACTED = "6b7ae4f9eaa6 Extracting [==================================================>]  1.175GB/1.175GB"


def first(d: Diagnosis) -> str:
    return f"{d.causes[0].slug} {d.causes[0].certainty}" if d.causes else "none"


def pulling(w: World, age_s: float, *log: str, **fields: object) -> Diagnosis:
    w.row(age_s=age_s)
    w.pod(age_s=age_s, pull_s=99999, log=log, **fields)
    return w.look()[1]


@pytest.mark.incident("SP01", came="right", fed="readers", known=True)
def test_ten_minutes_of_a_large_image(world: World) -> None:
    d = pulling(world, 600, "latest Pulling from org/app", LAYER)
    assert (first(d), d.state, d.plans) == ("image-pulling confirmed", State.HEALTHY, ())


@pytest.mark.incident("SP01", came="right", fed="readers", known=True, twin="a small image, an hour old")
def test_an_hour_of_a_small_image(world: World) -> None:
    d = pulling(world, 3600, "latest Pulling from org/app", LAYER.replace("9.2GB", "231.1MB"))
    assert (first(d), d.state) == ("pull-over-budget likely", State.UNHEALTHY)


@pytest.mark.incident("SP03", came="right", fed="readers", known=True)
def test_the_layer_cannot_be_registered(world: World) -> None:
    world.railway.say("JOB_FAILED (FAILED_TO_START_DUE_TO_NO_CAPACITY)")
    failed = "failed to pull image: failed to register layer: Container ID 78971 cannot be mapped to a host ID"
    d = pulling(world, 1080, "latest Pulling from org/image-a", EXTRACTED, failed)
    assert first(d).startswith("image-unpullable "), d.headline
    assert d.plans == ()
    assert "no-capacity" not in [c.slug for c in d.causes]


@pytest.mark.incident("SP03", came="right", fed="readers", known=True, twin="the layer was registered")
def test_the_layer_is_extracted(world: World) -> None:
    d = pulling(world, 280, "latest Pulling from org/image-a", EXTRACTED, "6b7ae4f9eaa6 Pull complete", LAYER)
    assert first(d) == "image-pulling confirmed"


@pytest.mark.incident("SP06", came="right", fed="readers", known=True)
def test_the_stopped_pods_machine_is_taken(world: World) -> None:
    world.row()
    world.pod(desired="EXITED", log=("There are not enough free GPUs on the host machine to start this pod.",))
    world.runpod.stock = {("NVIDIA GeForce RTX 4090", "US-TX-3"): "High"}  # fleet-wide stock is irrelevant
    d = world.look()[1]
    assert first(d).startswith("host-gpus-taken "), d.headline
    assert any("local disk is copied" in x for x in d.must_not)


@pytest.mark.incident("SP06", came="open", fed="readers", known=True, twin="nothing says why it is stopped")
def test_a_stopped_pod_without_a_word(world: World) -> None:
    world.row()
    world.pod(desired="EXITED")
    assert first(world.look()[1]).startswith("pod-stopped ")


@pytest.mark.incident("SP08", came="right", fed="evidence", known=True)
def test_the_hosts_driver_is_too_old_for_the_image() -> None:
    d = build.judge({"inside": {"driver_cuda": "12.4", "image_cuda": "12.8", "processes": []}})
    assert "driver-too-old" in [c.slug for c in d.causes[:2]], d.headline
    assert any("same host" in x for x in d.must_not)


@pytest.mark.incident("SP08", came="right", fed="evidence", known=True, twin="the driver is new enough")
def test_a_driver_that_is_new_enough() -> None:
    d = build.judge({"inside": {"driver_cuda": "12.8", "image_cuda": "12.8", "processes": []}})
    assert "driver-too-old" not in [c.slug for c in d.causes]


@pytest.mark.incident("SP09", came="open", fed="readers", known=True)
def test_nothing_says_why_no_container_comes(world: World) -> None:
    d = pulling(world, 1500)
    assert first(d).startswith("no-container ")
    assert any("name a cause" in x for x in d.must_not)
    assert d.plans == ()


@pytest.mark.incident("SP09", came="right", fed="readers", known=True, twin="the ports are there")
def test_a_pod_with_ports(world: World) -> None:
    world.row()
    world.pod()
    assert first(world.look()[1]).startswith("worker-not-started ")
