"""The watch's fleet file while it is watched: changed, broken, emptied; and a record that cannot be written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.watch import fleet_file, listeners
from deployments.watch.fleet_file import FleetFile
from deployments.watch.service import Watch
from deployments.watch.settings import Settings
from flows.config import load_fleet
from runbooks.core.config import ConfigError
from runbooks.core.policy import Mode


def write(path: Path, *names: str) -> None:
    boxes = [{"name": n, "node": "n", "match": "sleep"} for n in names]
    path.write_text(yaml.safe_dump({"nodes": [{"name": "n", "local": True}], "containers": boxes}))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fleet_file, "EVERY_S", 0.0)
    monkeypatch.setattr(listeners.Listener, "start", lambda _self: None)
    write(tmp_path / "fleet.yaml", "w1", "w2")
    return tmp_path / "fleet.yaml"


def test_it_is_read_again_when_it_has_changed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fleet, file = load_fleet(str(path)), FleetFile(str(path))
    assert file.changed(fleet) is None
    write(path, "w1", "other.w-3")
    other = file.changed(fleet)
    assert other is not None
    assert [c.name for c in other.containers] == ["w1", "other.w-3"]
    path.write_text("containers: [")
    assert file.changed(other) is None
    assert "cannot be used" in caplog.text
    write(path)
    assert file.changed(other) is None
    assert "names no `containers`" in caplog.text
    path.unlink()
    assert file.changed(other) is None
    write(path, "w1", "other.w-3")
    assert file.changed(other) is None, "the same again"


def test_what_is_known_of_a_container_that_stays_is_kept(path: Path) -> None:
    watch = Watch(load_fleet(str(path)), Settings(Mode.AUTO, str(path), None, None))
    watch.watched["n", "w1"].run, old = "run-1", list(watch._listeners)
    write(path, "w1", "w3")
    watch._change(load_fleet(str(path)))
    assert {name: w.run for (_, name), w in watch.watched.items()} == {"w1": "run-1", "w3": ""}
    assert all(x.ending.is_set() for x in old)
    watch._hear("unreachable", (old[0], "late"))
    assert not watch.watched["n", "w1"].heard, "an answer to an older file is not heard"
    watch._ended("gone")


def test_a_full_disk_costs_the_record_and_not_the_watch(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", "/dev/full/never")
    watch = Watch(load_fleet(str(path)), Settings(Mode.AUTO, str(path), None, None))
    for _ in range(2):
        watch._record(watch.watched["n", "w1"].it, [{"at": 1.0}])
    assert caplog.text.count("cannot be stored") == 1


def test_a_pattern_that_is_none_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace("match: sleep", "match: '('"))
    with pytest.raises(ConfigError, match="not a regular expression"):
        load_fleet(str(path))


def test_a_limit_that_would_end_every_run_is_refused(path: Path) -> None:
    path.write_text(path.read_text() + "limits: {container-death: {deaths_to_escalate: 0}}\n")
    with pytest.raises(ConfigError, match=r"limits\.container-death\.deaths_to_escalate: .*greater than or equal to 1"):
        load_fleet(str(path))
