"""`gpu-runbooks secrets`: what the fleet file names, stored as Prefect Secret blocks, never on a command line."""

import io
import secrets
from argparse import Namespace

import pytest

from deployments.cli import secrets as credentials
from deployments.cli.needed_secrets import NeededSecret, needs
from deployments.cli.secrets import _either, cmd_secrets, place_of, store_value, table
from deployments.errors import CommandError
from flows.config import load_fleet
from tasks.credentials import credential
from tests.support.engine_rig import REPO, Rig

FLEET = str(REPO / "deployments/fleet.example.yaml")


def test_readme_table_is_made_from_the_models() -> None:
    assert table() in (REPO / "deployments/README.md").read_text(encoding="utf-8")


def test_every_credential_of_the_example_fleet_is_found() -> None:
    text = (REPO / "deployments/fleet.example.yaml").read_text(encoding="utf-8")
    found = {n.name for n in needs(load_fleet(FLEET))}
    assert {"RUNPOD_API_KEY", "LEADER_TOKEN", "NODE_B_KEY", "node-c-key"} <= found
    assert all(name in text for name in ("LEADER_TOKEN", "NODE_B_KEY", "node-c-key"))


def test_a_value_from_standard_input_reaches_the_runbooks_and_no_output(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    value, name = secrets.token_urlsafe(24), "LEADER_TOKEN"
    monkeypatch.setattr("deployments.cli.run.ready", lambda: "")
    monkeypatch.setattr("sys.stdin", io.StringIO(value + "\n"))
    assert cmd_secrets(Namespace(fleet=FLEET, set=name, json=False)) == 0
    assert credential(name) == value
    assert place_of(NeededSecret(name=name, field="f", used_by="u")) == "Prefect Secret leader-token"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert cmd_secrets(Namespace(fleet=FLEET, set=None, json=False)) == 1
    said = capsys.readouterr()
    assert "RUNPOD_API_KEY  MISSING" in said.out
    assert value not in said.out + said.err


def test_nothing_is_stored_for_an_empty_or_huge_input(monkeypatch: pytest.MonkeyPatch) -> None:
    need = NeededSecret(name="X", field="f", used_by="u")
    with pytest.raises(CommandError, match="nothing is stored"):
        store_value(need, "  ")
    for text in ("", "x" * (credentials.LARGEST + 1)):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        with pytest.raises(CommandError):
            credentials._ask(need)


def test_a_name_that_no_file_has_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.cli.run.ready", lambda: "")
    monkeypatch.setattr("deployments.cli.secrets.store_value", lambda *_: pytest.fail("stored"))
    with pytest.raises(CommandError, match=r"nor notifications.yaml names it; there are: .*; nearest: LEADER_TOKEN"):
        cmd_secrets(Namespace(fleet=FLEET, set="LEADER_TOKN", json=False))


SQL, URL, KEY = (f"orchestrator.database.{n}" for n in ("url_env", "rest_url_env", "rest_key_env"))


@pytest.mark.parametrize(
    ("found", "missing"),
    [({SQL}, set()), ({URL, KEY}, set()), ({URL}, {SQL, KEY}), (set(), {SQL, URL, KEY}), ({SQL, URL}, set())],
)
def test_the_database_is_reached_one_way_or_the_other(found: set[str], missing: set[str]) -> None:
    rows = [(NeededSecret(name=f.rsplit(".")[-1], field=f, used_by="u"), "here" if f in found else "") for f in (SQL, URL, KEY)]
    assert {n.field for n, place in _either(rows) if not place} == missing
