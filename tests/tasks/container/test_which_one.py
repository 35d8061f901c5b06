"""A run about a node with several containers says which to name; a sweep looks at each of them."""

from pathlib import Path

import pytest
import yaml

from flows.config import load_fleet
from flows.spec import about_one
from flows.specs import load_spec
from flows.sweep.sweeping import Sweep, check_target
from tests.deployments.test_cli import call
from tests.support.docker_engine import Engine
from tests.tasks.container.world import World


@pytest.fixture(scope="module")
def two(engine: Engine) -> tuple[str, str]:
    engine.create("which-a", "sleep", "infinity")
    engine.create("which-b", "sh", "-c", "exit 3")
    engine.wait_status("which-b", "exited")
    return "which-a", "which-b"


def fleet_file(folder: Path, engine: Engine, *names: str) -> Path:
    path, one = folder / "fleet.yaml", {"node": "n", "engine": list(engine.argv), "socket": str(engine.socket)}
    one["daemon_pidfile"] = str(engine.pidfile)
    containers = [one | {"name": name} for name in names]
    path.write_text(yaml.safe_dump({"nodes": [{"name": "n", "local": True}], "containers": containers}))
    return path


def test_a_run_without_the_option_is_told_what_to_write(engine: Engine, two: tuple[str, str], tmp_path: Path) -> None:
    path = fleet_file(tmp_path, engine, *two)
    done = call("run", "container-death", "n", "--fleet", str(path), "--no-server", "--out", str(tmp_path))
    assert done.returncode == 2, done
    assert "give one of: --option container=which-a, --option container=which-b" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_section_the_node_is_asked(
    engine: Engine, two: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
    path = fleet_file(tmp_path, engine)
    done = call("run", "container-death", "n", "--fleet", str(path), "--no-server", "--out", str(tmp_path))
    assert done.returncode == 2, done
    assert "--option container=which-b" in done.stderr
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    done = call("run", "container-death", "n", "--fleet", str(path), "--no-server", "--out", str(tmp_path))
    assert done.returncode == 2, done
    assert "which container of n? The fleet file's `containers` name none there, and " in done.stderr
    assert "give --option container=NAME" in done.stderr


def test_a_sweep_looks_at_each(engine: Engine, two: tuple[str, str], tmp_path: Path) -> None:
    sweep = Sweep(
        fleet=load_fleet(str(fleet_file(tmp_path, engine, *two))),
        slugs=("container-death",),
        folder=tmp_path / "reports",
        run_id="12345678-night",
        trigger="nightly",
    )
    results, *_ = check_target.fn(sweep, "n", "container-death")
    assert [("which-a" in r.headline, "which-b" in r.headline) for r in results] == [(True, False), (False, True)]
    assert [r.outcome.exit_code == 1 for r in results] == [False, True]
    assert len({r.report for r in results}) == 2


def test_the_only_container_needs_no_option(engine: Engine, two: tuple[str, str]) -> None:
    context = World(engine, two[0]).context
    assert about_one(load_spec("container-death"), context).options == {"container": two[0]}
