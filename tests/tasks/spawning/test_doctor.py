"""`doctor` on the orchestrator's systems: well, and broken one by one; each fault says how it is put right."""

import pytest

from deployments.doctor_systems import check_systems
from tests.tasks.spawning.conftest import World


def faults(world: World) -> dict[str, str]:
    found = list(check_systems(world.fleet()))
    assert all(c.fix for c in found if c.state == "FAULT" and c.name != "railway"), found
    assert "-----BEGIN" not in str(found)
    return {c.name: c.says for c in found if c.state == "FAULT"}


def test_each_system(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.railway.variables |= {
        "RUNPOD_API_KEY": "x", "SUPABASE_URL": "x", "SUPABASE_SERVICE_ROLE_KEY": "x", "MIN_ACTIVE_GPUS": "0",
        "MAX_ACTIVE_GPUS": "2", "GPU_IDLE_TIMEOUT_SEC": "600", "TASKS_PER_GPU_THRESHOLD": "3",
        "RUNPOD_WORKER_IMAGE": "org/app:1", "RUNPOD_GPU_TYPE": "NVIDIA GeForce RTX 4090", "RUNPOD_STORAGE_NAME": "s",
    }  # fmt: skip
    assert faults(world) == {}
    world.railway.variables["MIN_ACTIVE_GPUS"] = "5"
    assert "above" in faults(world)["scaling"]
    world.railway.variables["MIN_ACTIVE_GPUS"] = "many"
    assert "many" in faults(world)["scaling"]
    world.railway.variables["MIN_ACTIVE_GPUS"] = "0"
    world.railway.variables["RUNPOD_WORKER_IMAGE"] = " org/app"
    assert "IMAGE" in faults(world)["scaling"]
    world.railway.variables["RUNPOD_WORKER_IMAGE"] = "org/app:1"
    key = world.railway.variables.pop("RUNPOD_SSH_PRIVATE_KEY")
    assert "RUNPOD_SSH_PRIVATE_KEY" in faults(world)["railway variables"]
    world.railway.variables["RUNPOD_SSH_PRIVATE_KEY"] = key[:150]
    assert "damaged" in faults(world)["railway key"]
    world.railway.variables["RUNPOD_SSH_PRIVATE_KEY"] = key
    world.railway.status = "CRASHED"
    assert "CRASHED" in faults(world)["railway"]
    world.railway.status = "SUCCESS"
    for name, check in (
        ("RUNPOD_API_KEY", "runpod"),
        ("DATABASE_URL", "database"),
        ("RAILWAY_TOKEN", "railway"),
        ("RUNPOD_SSH_PRIVATE_KEY", "pod key"),
    ):
        with monkeypatch.context() as m:
            m.delenv(name)
            assert check in faults(world), name
    with monkeypatch.context() as m:
        m.setenv("RUNPOD_SSH_PRIVATE_KEY", key.replace("\n", "\\n"))
        assert "literal-newlines" in faults(world)["pod key"]
