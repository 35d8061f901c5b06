"""What a person asks before a run: help of one runbook, of all, of every kind of action; and nearest names for what is misspelt."""

import json
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from deployments.cli import approve
from deployments.cli.main import main
from deployments.cli.words import Parser
from flows import store
from flows.engine.waiting_name import WAITS
from runbooks.core.catalog import runbook_heads
from runbooks.core.kinds import KINDS
from runbooks.core.knowledge import load_runbook, runbook_slugs
from tests.support.commands import leaves

Out = pytest.CaptureFixture[str]


def said(capsys: Out, *args: str) -> str:
    assert main(list(args)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("args", [("run", "--help", "zombie-gpu"), ("run", "zombie-gpu", "--help"), ("list", "-h", "zombie-gpu"),
                                  ("run", "--mode", "auto", "zombie-gpu", "node-a", "--help")])  # fmt: skip
def test_help_of_one_runbook(args: tuple[str, ...], capsys: Out) -> None:
    text = said(capsys, *args)
    assert said(capsys, "list", "zombie-gpu").strip() in text  # one text in both places
    assert "nightly:     yes" in text
    assert f"reset-gpu (destructive): {KINDS['reset-gpu'].changes}" in text
    assert "usage: gpu-runbooks run zombie-gpu TARGET" in text


@pytest.mark.parametrize("slug", runbook_slugs())
def test_help_of_each_names_every_option_and_action(slug: str, capsys: Out) -> None:
    text, book = said(capsys, "run", slug, "--help"), load_runbook(slug)
    assert [name for name in book.options if f"\n  {name}" not in text] == []
    assert [kind for kind in book.actions if f"\n  {kind} ({KINDS[kind].risk})" not in text] == []
    assert ("may change:  nothing" in text) is not bool(book.actions)


@pytest.mark.parametrize("args", [["run"], ["list"], ["run", "--fleet", "fleet.yaml", "--wait"]], ids=" ".join)
def test_help_shows_every_runbook_in_short(args: list[str], capsys: Out) -> None:
    text = said(capsys, *args, "--help")
    assert f"usage: gpu-runbooks {args[0]}" in text
    table = text.partition("\nrunbooks (")[2]
    for head in runbook_heads():
        row = " ".join(table.partition(f"\n  {head['slug']} ")[2].split())
        assert "in the nightly" in row.partition(";")[2][:20], head["slug"]
        if head["options"]:
            assert f"options: {', '.join(head['options'])}" in row, head["slug"]
    assert "changes nothing" in table
    assert "at worst destructive" in table


def test_help_of_a_misspelt_runbook_names_the_nearest(capsys: Out) -> None:
    assert main(["run", "zombie-gpi", "--help"]) == 2
    assert "nearest: zombie-gpu" in capsys.readouterr().err


def test_every_kind_of_action_is_listed_with_all_that_is_known_of_it(capsys: Out) -> None:
    rows = {row["kind"]: row for row in json.loads(said(capsys, "list", "--actions", "--json"))}
    assert [k for k in KINDS if not k.startswith("toy-")] == list(rows)
    text = " ".join(said(capsys, "list", "--actions").split())
    for kind, row in rows.items():
        assert row["runbooks"], kind
        head = f"{kind} ({row['risk']}): {', '.join(row['runbooks'])}"
        assert f"{head} changes: {row['changes']} proven: {row['proven']} undone: {row['undone']}" in text


def test_the_actions_of_one_runbook(capsys: Out) -> None:
    rows = json.loads(said(capsys, "list", "ray-job", "--actions", "--json"))
    assert tuple(sorted(row["kind"] for row in rows)) == load_runbook("ray-job").actions
    assert said(capsys, "list", "host-limits", "--actions") == "nothing is changed\n"


def test_the_list_as_data_says_whether_the_nightly_runs_it(capsys: Out) -> None:
    nightly = {head["slug"]: head["nightly"] for head in json.loads(said(capsys, "list", "--json"))}
    assert (nightly["zombie-gpu"], set(map(type, nightly.values()))) == (True, {bool})


@pytest.mark.parametrize(
    ("args", "nearest"),
    [
        (["statsu"], "status"),
        (["fleet", "chekc", "x"], "check"),
        (["alerts", "tset", "x"], "test"),
        (["notify", "chek"], "check"),
        (["approver", "ad", "ana"], "add"),
        (["run", "zombie-gpu", "local", "--mode", "aprove"], "approve"),
        (["run", "zombie-gpu", "local", "--flet", "x"], "--fleet"),
        (["fleet", "check", "x", "--polcy", "y"], "--policy"),
        (["--versoin"], "--version"),
        (["fleet", "import", "ansibel", "x"], "ansible"),
        (["triage", "--jsn", "x"], "--json"),
        (["triage", "x", "--fcats"], "--facts"),
        (["triage", "--fact", "exit_cod=137"], "exit_code"),
        (["restore", "x", "--polcy", "y"], "--policy"),
        (["restore", "x", "--dry-rn"], "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_misspelt_word_is_answered_with_the_nearest(args: list[str], nearest: str, capsys: Out) -> None:
    try:
        code: object = main(args)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert capsys.readouterr().err.rstrip().endswith(f"nearest: {nearest}")


@pytest.mark.parametrize("command", ["approve", "reject"])
def test_a_misspelt_name_of_a_waiting_run_is_answered_with_the_nearest(command: str, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    waiting = [SimpleNamespace(id=uuid4(), name=f"zombie-gpu {node}{WAITS}clean up") for node in ("node-a", "other")]
    monkeypatch.setattr(approve, "use_answering_server", lambda: None)
    monkeypatch.setattr(store, "find_runs", lambda *_, **__: waiting)
    assert main([command, "zombi-gpu node-a"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("; nearest: zombie-gpu node-a")


@pytest.mark.parametrize(("there", "typed", "nearest"), [("logs/train.log", "logs/trian.log", "train.log"), ("logs/x", "lgos/x", "logs")])
def test_a_misspelt_file_is_answered_with_the_nearest(
    there: str, typed: str, nearest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Of a file handed to `triage`, or of a folder on the way to it; and of one that every command reads as a whole."""
    monkeypatch.chdir(tmp_path)
    Path(there).parent.mkdir()
    Path(there).write_text("x\n")
    for args in (["triage", typed], ["fleet", "check", typed]):
        assert main(args) == 2
        assert capsys.readouterr().err.rstrip().endswith(f"nearest: {nearest}")


def test_every_command_reads_its_words_in_one_way() -> None:
    assert all(isinstance(parser, Parser) for _, parser in leaves())
