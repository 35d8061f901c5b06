"""`doctor` on the orchestrator's systems: well, and broken one by one; each fault says how it is put right."""

import pytest

from deployments.lab import fake_runpod
from tasks.systems.answers import begin_here
from tasks.systems.scaling import check_scaling
from tests.tasks.spawning.conftest import World


def faults(world: World) -> dict[str, str]:
    found = list(begin_here(world.fleet())())
    assert all(c.fix for c in found if c.state == "FAULT"), "every fault says how it is put right"
    assert "-----BEGIN" not in str(found)
    return {c.name: c.detail for c in found if c.state == "FAULT"}


def test_each_system(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.railway.variables |= {
        "RUNPOD_API_KEY": "x", "SUPABASE_URL": "x", "SUPABASE_SERVICE_ROLE_KEY": "x", "MIN_ACTIVE_GPUS": "0",
        "MAX_ACTIVE_GPUS": "2", "GPU_IDLE_TIMEOUT_SEC": "600", "TASKS_PER_GPU_THRESHOLD": "3",
        "RUNPOD_WORKER_IMAGE": "org/app:1", "RUNPOD_GPU_TYPE": "NVIDIA GeForce RTX 4090", "RUNPOD_STORAGE_NAME": "s",
    }  # fmt: skip
    assert "network volume" in faults(world)["request"]
    world.runpod.volumes = [{"id": "v1", "name": "s", "size": 100, "dataCenterId": "EU-RO-1"}]
    assert faults(world) == {}
    world.railway.variables["RUNPOD_GPU_TYPE"] = "RTX4090"
    assert "GPU type" in faults(world)["request"]
    world.railway.variables["RUNPOD_GPU_TYPE"] = "NVIDIA GeForce RTX 4090"
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
    world.railway.sealed = {"RUNPOD_SSH_PRIVATE_KEY"}
    assert faults(world) == {}, "a sealed variable is set, and cannot be looked at"
    world.railway.sealed = set()
    railway = {"url": world.railway.url, "project": "p", "environment": "e", "service": "s", "timeout_s": 5}
    world.fields["railway"] = railway | {"environment": "staging"}
    assert "environment e" in faults(world)["railway token"]
    world.fields["railway"] = railway | {"token_kind": "account"}
    assert "project token" not in str(faults(world)["railway"]), "a project token sent as an account's is refused"
    world.fields["railway"] = railway
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


def test_credentials_that_look_wrong_are_noted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", f'"{fake_runpod.KEY}"')
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("SUPABASE_URL", "project.supabase.co")
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "anon")
    found = {c.name: c for c in begin_here(world.fleet())()}
    assert "blanks or quotes" in found["runpod key"].detail
    assert found["runpod"].state == "FAULT"
    assert "supabase.co" in found["database url"].detail
    assert "sb_secret_" in found["database key"].detail
    assert found["database"].fix
    assert "anon" not in str([c.detail for c in found.values()])


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("RUNPOD_WORKER_IMAGE", "org/app", "FAULT"),
        ("RUNPOD_WORKER_IMAGE", "registry.example:5000/org/app:1.2", ""),
        ("RUNPOD_WORKER_IMAGE", "org/app@sha256:" + "a" * 64, ""),
        ("RUNPOD_GPU_TYPE", "'NVIDIA H100'", "FAULT"),
        ("GPU_IDLE_TIMEOUT_SEC", "30", "note"),
        ("TASKS_PER_GPU_THRESHOLD", "0", "FAULT"),
        ("MAX_ACTIVE_GPUS", "-1", "FAULT"),
    ],
)
def test_each_number_and_name(name: str, value: str, state: str) -> None:
    said = [c for c in check_scaling({name: value}) if name in c.detail and "not set" not in c.detail]
    assert [c.state for c in said] == ([state] if state else [])
