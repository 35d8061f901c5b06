"""A fleet file that names a Prefect Secret block which nobody has stored is refused with the nearest one, before anything is begun."""

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
    "logs": (["orchestrator"], "deployments.cli.logs._sources"),
    "watch": ([], "deployments.watch.service.Watch"),
    "gateway": ([], "deployments.gateway.main.serve"),
    "up": ([], "deployments.cli.up._publish_page"),
    "bundle": (["here", "--out", "/tmp"], "deployments.cli.bundle._pieces"),
    "restore": (["no-such-file"], "tasks.rendezvous.saved.read_saved"),
    "secrets": ([], "deployments.cli.secrets.place_of"),
    "doctor": (["--json"], ""),
    "fleet check": ([], ""),
}
"""Its other words, and what it does not reach where the name is wrong."""
GO_ON = ("up", "secrets")  # by these it is stored: they warn
SAYS = ("doctor",)  # among the rest


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


def refused(fleet: str, block: str) -> str:
    """The line that names it, as for every other wrong name in a file."""
    number = next(n for n, line in enumerate(Path(fleet).read_text().splitlines(), 1) if misspelt(block) in line)
    return f"{fleet}: line {number}: nodes.1.key.secret: {told(block)}"


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
    command: str, fleet: str, block: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, begins = COMMANDS[command]

    def begun(*_: object, **__: object) -> Any:
        raise CommandError(BEGUN)

    if begins:
        monkeypatch.setattr(begins, begun)
    monkeypatch.setattr("deployments.cli.run.ready", lambda: None)
    monkeypatch.setattr("deployments.cli.up.ensure_up", lambda **_: SimpleNamespace())
    monkeypatch.setattr("deployments.doctor.main.LOOKS", tuple(look for look in LOOKS if look in (_server, _secrets)))
    monkeypatch.setattr(missing_secrets, "_WARNED", set())
    code = main([*command.split(), *words, *([fleet] if command == "fleet check" else ["--fleet", fleet])])
    said = capsys.readouterr()
    where = said.out if command in SAYS else said.err
    assert where.count(told(block)) == 1
    assert f"; nearest: {block}; correct it, or store it: gpu-runbooks secrets --set {misspelt(block)}" in where
    if command in GO_ON:
        assert said.err.index(f"warning: nodes.key.secret: {told(block)}") < said.err.index(BEGUN)
    elif command not in SAYS:
        assert (code, BEGUN in said.err, refused(fleet, block) in said.err) == (2, False, True), said.err


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
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = misspelt(block).upper().replace("-", "_")
    path = tmp_path / "fleet.yaml"

    monkeypatch.setattr(missing_secrets, "_WARNED", set())

    def found(token: str) -> str:
        path.write_text(yaml.safe_dump({"nodes": [{"name": "here", "local": True}], "leader": {"url": "http://x", "token_env": token}}))
        missing_secrets.check_secrets(load_fleet(str(path)), str(path))  # which goes on: workers may have the variable
        return capsys.readouterr().err

    said = f"leader.token_env: no variable {name} and no Prefect Secret block '{misspelt(block)}'; nearest: {block}"
    assert found(name) == f"warning: {said}\n"
    assert found("QUITE_ANOTHER_NAME") == ""
    assert found(block.upper().replace("-", "_")) == ""
    missing_secrets._WARNED.clear()
    monkeypatch.setenv(name, "set here")
    assert found(name) == ""


def test_without_a_server_it_is_said_that_nothing_was_checked(
    fleet: str, block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started for it, and the command goes on."""
    monkeypatch.setattr(credentials, "secret_blocks", lambda: pytest.fail("asked"))
    monkeypatch.setattr(missing_secrets, "_WARNED", set())
    monkeypatch.delenv("PREFECT_API_URL")
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    for _ in range(2):
        missing_secrets.check_secrets(load_fleet(fleet), fleet)
    why = "no Prefect server was started on this machine yet"
    assert capsys.readouterr().err == f"not checked: whether there are Prefect Secret blocks {misspelt(block)}: {why}\n"


def test_a_server_that_does_not_list_them_is_named(
    fleet: str, rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses() -> None:
        raise PermissionError

    monkeypatch.setattr(credentials, "secret_blocks", refuses)
    monkeypatch.setattr(missing_secrets, "_WARNED", set())
    missing_secrets.check_secrets(load_fleet(fleet), fleet)
    assert capsys.readouterr().err.endswith(": the Prefect server does not list them (PermissionError)\n")


@pytest.mark.parametrize("command", ["check", "test"])
def test_notifications_are_refused_the_same_way(command: str, block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notifications.yaml"
    path.write_text(f"channels:\n  mail:\n    url: {{secret: {misspelt(block)}}}\ndefault: [mail]\n")
    assert main(["notify", command, "--file", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}: line 3: channels.mail.url.secret: {told(block)}" in said
    assert f"; nearest: {block}; " in said
