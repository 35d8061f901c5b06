"""Who reads what: whatever is read about a container or a worker is used by its judgment, or its use is named here."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "container": ("runbooks.container.evidence", "runbooks.core.host_facts"),
    "spawning": ("runbooks.spawning.evidence", "runbooks.spawning.parsers.runpod", "runbooks.spawning.parsers.orchestrator_log"),
}
BY_HAND = "shown with the raw readings, for a person who makes it anew by hand"
ELSEWHERE = {  # fields that the judgment leaves alone, and who needs them
    "ContainerFacts.created_at": BY_HAND,
    "ContainerFacts.env_names": BY_HAND,
    "ContainerFacts.network_mode": BY_HAND,
    "ContainerFacts.privileged": BY_HAND,
    "ContainerFacts.devices": "the reader asks the host and the container about each",
    "MountPoint.rw": BY_HAND,
    "MountPoint.propagation": BY_HAND,
    "HealthCheck.ended_at": BY_HAND,
    "ContainerInside.pids": "the reader of mounts looks into the first one's namespace",
    "KernelOom.process": "it stands in the kernel's line, which is quoted",
    "KernelFault.process": "it stands in the kernel's line, which is quoted",
    "HostFacts.clock_at": "the reader compares it with this machine's clock",
    "PodProcess.start_ticks": "its identity, for a person who signals it",
    "Pod.image": "the reader looks for earlier starts of the same image",
    "Pod.uptime_s": "the reader of earlier starts",
    "Usual.image": "of which image the seconds are",
}


def fields(module: str) -> set[tuple[str, str]]:
    """(model, field) of every model that this module defines."""
    models = [m for _, m in inspect.getmembers(import_module(module), inspect.isclass)]
    own = [m for m in models if issubclass(m, BaseModel) and m.__module__ == module]
    return {(m.__name__, name) for m in own for name in m.model_fields}


def read_by(runbook: str) -> set[str]:
    """Names of attributes that the judgment reads."""
    files = [p for p in sorted((ROOT / "runbooks" / runbook).glob("*.py")) if p.stem not in ("evidence", "host_facts")]
    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in files]
    return {n.attr for t in trees for n in ast.walk(t) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}


@pytest.mark.parametrize("runbook", sorted(MODELS))
def test_what_is_read_is_used(runbook: str) -> None:
    used = read_by(runbook)
    every = {f"{model}.{name}" for module in MODELS[runbook] for model, name in fields(module)}
    idle = {name for name in every if name.rpartition(".")[2] not in used}
    excused = {name for name in ELSEWHERE if name in every}
    assert idle - excused == set(), "read, and used by nobody"
    assert excused - idle == set(), "an excuse that is needed no more"
