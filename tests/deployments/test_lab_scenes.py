"""The rehearsals besides zombie-gpu: each builds its fault, and is diagnosed and offered the one plan it is about."""

from importlib import import_module
from pathlib import Path

import pytest

from deployments.lab.main import SCENES
from flows.config import load_fleet
from flows.specs import load_spec
from runbooks.core.knowledge import load_runbook
from tasks.context import Context
from tasks.ssh.seen import LogInCheck
from tasks.transport.open import HostPool


@pytest.mark.parametrize(
    ("slug", "cause", "plan"),
    [
        ("ssh-auth-failure", "key-file-unparsable", "put the key file right"),
        ("stuck-spawning", "worker-not-started", "start the worker"),
    ],
)
def test_a_scene_shows_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slug: str, cause: str, plan: str
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with import_module(SCENES[slug]).scene(tmp_path) as scene:
        for name, value in scene.secrets.items():
            monkeypatch.setenv(name, value)
        pool, spec = HostPool(), load_spec(slug)
        limits = load_runbook(slug).limit_values({"gap_s": 0.05} if slug == "stuck-spawning" else None)
        fleet = load_fleet(str(scene.fleet))
        context = Context(fleet=fleet, target=scene.target, open_host=pool, limits=limits, log_in=LogInCheck())
        d = spec.diagnose(spec.gather(context), spec.limits.model_validate(limits))
        pool.close_all()
    assert d.causes[0].slug == cause, d.model_dump_json(indent=1)
    assert [p.name for p in d.plans] == [plan]
    assert not any(value in d.model_dump_json() for value in scene.secrets.values())


def test_every_scene_tells_its_story() -> None:
    assert all(len(import_module(module).STORY) > 60 for module in SCENES.values())
