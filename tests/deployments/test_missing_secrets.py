"""A Prefect Secret block that the fleet file names and nobody has stored is named with the nearest one, before anything is begun."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client

from deployments.cli import missing_secrets
from deployments.cli.main import main
from deployments.cli.parser import build_parser
from deployments.doctor.main import LOOKS, _secrets, _server
from deployments.errors import CommandError
from flows.config import load_fleet
from runbooks.core.fleet import KeySource
from tasks import credentials
from tasks.transport.base import TransportError
from tasks.transport.keys import load_key
from tests.support.engine_rig import Rig

BEGUN = "begun after all"
COMMANDS: dict[str, tuple[list[str], str]] = {
    "run": (["host-limits", "here"], "flows.launch.create_pending"),
    "run --no-server": (["host-limits", "here"], "deployments.cli.run_offline.run_offline"),
    "reset-breaker": ([], "flows.engine.guards.reset_breaker"),
    "alerts test": (["no-such-file"], "deployments.cli.alerts.read_alerts"),
    "nightly": ([], "flows.launch.create_pending"),
    "watch": ([], "deployments.watch.service.Watch"),
    "gateway": ([], "deployments.gateway.main.serve"),
    "up": ([], "deployments.cli.up._publish_page"),
    "bundle": (["here", "--out", "/tmp"], "deployments.cli.bundle._pieces"),
    "restore": (["no-such-file"], "tasks.rendezvous.saved.read_saved"),
    "secrets": ([], "deployments.cli.secrets.place_of"),
    "doctor": (["--json"], ""),
    "fleet check": ([], ""),
}
"""Its other words, and what it does not reach before it has told; "": it prints that among the rest."""


@pytest.fixture(scope="module")
def block(rig: Rig) -> Iterator[str]:
    """One that is stored, under a name of its own."""
    name = f"pod-key-{os.urandom(3).hex()}"
    credentials.write_secret(name, "of no use to anybody")
    yield name
    with get_client(sync_client=True) as client:
        found = client.read_block_document_by_name(name, "secret", include_secrets=False)
        client.delete_block_document(found.id)


@pytest.fixture
def fleet(tmp_path: Path, block: str) -> str:
    """A fleet file with a misspelt name."""
    far = {"name": "far", "host": "127.0.0.1", "port": 1, "user": "root", "key": {"secret": misspelt(block)}}
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({"nodes": [{"name": "here", "local": True}, far]}))
    return str(path)


def misspelt(block: str) -> str:
    return block.replace("key", "kye")


def told(block: str) -> str:
    return f"no Prefect Secret block '{misspelt(block)}'; there are: "


def test_every_command_that_takes_a_fleet_file_is_tried_here() -> None:
    assert set(_with_fleet(build_parser())) == set(COMMANDS) - {"restore", "fleet check", "run --no-server"}


def _with_fleet(parser: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from _with_fleet(inner, f"{name} {word}".strip())
        elif "--fleet" in action.option_strings:
            yield name


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_named_before_anything_is_begun(
    command: str, fleet: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, begins = COMMANDS[command]

    def begun(*_: object, **__: object) -> Any:
        raise CommandError(BEGUN)

    if begins:
        monkeypatch.setattr(begins, begun)
    monkeypatch.setattr("deployments.cli.run.ready", lambda: None)
    monkeypatch.setattr("deployments.cli.up.ensure_up", lambda **_: SimpleNamespace())
    monkeypatch.setattr("deployments.doctor.main.LOOKS", tuple(look for look in LOOKS if look in (_server, _secrets)))
    monkeypatch.setattr(missing_secrets, "_TOLD", set())
    main([*command.split(), *words, *([fleet] if command == "fleet check" else ["--fleet", fleet])])
    said = capsys.readouterr()
    if begins:
        assert BEGUN in said.err
        assert said.err.count(told(block)) == 1
        assert said.err.index(told(block)) < said.err.index(BEGUN)
        assert f"; nearest: {block}" in said.err
    else:
        assert f"nodes.key.secret: {told(block)}" in said.out
        assert f"; nearest: {block}" in said.out


def test_the_doctor_says_how_it_is_put_right(fleet: str, block: str) -> None:
    ns = argparse.Namespace(fleet=fleet)
    list(_server(ns))
    (check,) = _secrets(ns)
    assert (check.state, check.says.startswith(f"nodes.key.secret: {told(block)}")) == ("FAULT", True)
    assert check.fix.endswith(f"gpu-runbooks secrets --set {misspelt(block)}")
    ns.server_answers = False
    assert not list(_secrets(ns))


def test_a_run_that_nobody_typed_names_it_too(block: str) -> None:
    """From the UI or an alert: its report has what the key's reader says."""
    with pytest.raises(TransportError, match=f"Prefect Secret {misspelt(block)} cannot be read: ValueError; nearest: {block}"):
        load_key(KeySource(secret=misspelt(block)))
    with pytest.raises(TransportError, match=r"is not a private key$"):
        load_key(KeySource(secret=block))


def test_what_may_be_a_variable_is_named_only_where_a_block_is_almost_it(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = misspelt(block).upper().replace("-", "_")
    path = tmp_path / "fleet.yaml"

    def found(token: str) -> list[str]:
        path.write_text(yaml.safe_dump({"nodes": [{"name": "here", "local": True}], "leader": {"url": "http://x", "token_env": token}}))
        return [m.says for m in missing_secrets.missing_secrets(load_fleet(str(path)))]

    assert found(name) == [f"leader.token_env: no variable {name} and no Prefect Secret block '{misspelt(block)}'; nearest: {block}"]
    assert found("QUITE_ANOTHER_NAME") == []
    assert found(block.upper().replace("-", "_")) == []
    monkeypatch.setenv(name, "set here")
    assert found(name) == []


def test_without_a_server_nothing_is_said_and_nothing_is_started(fleet: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(credentials, "secret_blocks", lambda: pytest.fail("asked"))
    monkeypatch.delenv("PREFECT_API_URL")
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    assert missing_secrets.missing_secrets(load_fleet(fleet)) == ()
