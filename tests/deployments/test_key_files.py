"""A key file of the fleet file that is not there is told with the nearest name, by everybody who looks for it."""

import json
from pathlib import Path

import pytest
import yaml

from deployments.cli.main import main
from runbooks.core.fleet import KeySource
from tasks.transport.base import TransportError
from tasks.transport.keys import load_key


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A misspelt name beside the right one."""
    (tmp_path / "id_ed25519_fleet").touch()
    (tmp_path / "config").touch()
    return str(tmp_path / "id_ed25519_flet")


@pytest.fixture
def fleet(tmp_path: Path, key: str) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({"nodes": [{"name": "far", "host": "127.0.0.1", "port": 1, "user": "op", "key": {"file": key}}]}))
    return str(path)


def test_fleet_check_and_doctor(fleet: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "check", fleet]) == 0
    assert f"node far: key.file: no file {key} on this machine; nearest: id_ed25519_fleet\n" in capsys.readouterr().out
    from deployments.doctor.main import _files

    monkeypatch.setattr("deployments.doctor.main.LOOKS", (_files,))
    assert main(["doctor", "--fleet", fleet, "--json"]) == 1
    (check,) = [c for c in json.loads(capsys.readouterr().out) if c["name"] == "key"]
    assert check["says"] == f"{key}: No such file or directory; nearest: id_ed25519_fleet"


def test_the_reader_of_the_key(key: str) -> None:
    """Its words stand in the report: they list nothing else of the folder."""
    with pytest.raises(TransportError) as refused:
        load_key(KeySource(file=key))
    assert refused.value.detail == f"key file {key} does not exist; nearest: id_ed25519_fleet"
    with pytest.raises(TransportError, match=r"does not exist$"):
        load_key(KeySource(file=key.replace("id_ed25519_flet", "zzz")))
