"""No pod to be had: the provider's stock decides between its shortage and a request that is too narrow."""

from pathlib import Path

from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.verdict import Diagnosis
from tests.tasks.spawning.conftest import World

KIND = "NVIDIA GeForce RTX 4090"
REFUSAL = "There are no longer any instances available with the requested specifications. Please refresh and try again."


def refused(world: World) -> None:
    """A row whose create call was refused, by an orchestrator that is tied to a network volume."""
    world.row(pod="")
    world.railway.variables |= {"RUNPOD_GPU_TYPE": KIND, "RUNPOD_STORAGE_NAME": "models"}
    world.runpod.volumes = [{"id": "v1", "name": "models", "size": 100, "dataCenterId": "EU-RO-1"}]
    world.railway.say(REFUSAL)


def causes(d: Diagnosis) -> list[str]:
    return [f"{c.slug} {c.certainty}" for c in d.causes]


def test_stock_elsewhere_and_none_where_the_volume_lies(world: World) -> None:
    refused(world)
    world.runpod.stock = {(KIND, "US-TX-3"): "High"}
    evidence, d = world.look()
    assert isinstance(evidence.stock, Known), evidence.stock
    assert causes(d)[:2] == ["request-too-narrow confirmed", "no-capacity ruled-out"]
    assert "models (RUNPOD_STORAGE_NAME) lies in EU-RO-1" in d.causes[0].evidence[0]
    assert not d.plans
    world.runpod.stock = {}
    assert causes(world.look()[1])[:1] == ["no-capacity confirmed"]
    world.runpod.stock = {("NVIDIA RTX A6000", "EU-RO-1"): "Medium"}
    assert causes(world.look()[1])[:2] == ["no-capacity confirmed", "request-too-narrow likely"]


def test_what_cannot_be_read_leaves_both_open(world: World, tmp_path: Path) -> None:
    refused(world)
    world.railway.variables["RUNPOD_GPU_TYPE"] = "sk-live-not-a-type"
    evidence, d = world.look()
    assert isinstance(evidence.stock, Unknown)
    assert "sk-live" not in evidence.model_dump_json(), "what is no GPU type of the provider's is never shown"
    assert causes(d)[:2] == ["no-capacity likely", "request-too-narrow possible"]
    del world.railway.variables["RUNPOD_GPU_TYPE"]
    assert isinstance(world.look()[0].stock, Absent)
    world.fields["request"] = {"gpu_type": KIND, "data_center": "EU-SE-1"}
    world.runpod.stock = {(KIND, "US-TX-3"): "Low"}
    assert causes(world.look()[1])[:1] == ["request-too-narrow confirmed"], "the fleet file wins"
    world.fields["request"] = {"gpu_type": KIND, "data_center": "EU-SE-1, US-TX-3"}
    assert causes(world.look()[1])[:1] == ["no-capacity possible"], "one of the places has it"


def test_a_worker_with_a_pod_asks_for_no_stock(world: World) -> None:
    world.row()
    world.pod(gpus=0)
    world.look()
    assert world.runpod.count("gpuTypes") == 0
