"""What undoes an action, with the facts of the action in it: in the table, and in the report of a run that acted."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.kinds import CANNOT, KINDS, undo_of
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Step
from runbooks.core.render import render
from runbooks.core.report import Undo
from runbooks.core.undo import in_words, nothing_to_type
from runbooks.core.unmark import plain
from tests.core.samples import fixed
from tests.support.arguments import sample

FOUND: dict[str, dict[str, str | int]] = {  # what only the action knows; tests beside each action hold that it says so
    "restart-job": {"pid": 4711, "start_ticks": 9, "boot_id": "b"},
    "recreate-container": {"new_id": "cafe"},
    "copy-checkpoint": {"copy": "/mnt/share/step 100.pt"},
    "quarantine-checkpoint": {"root": "/mnt/nvme"},
    "put-back-checkpoint": {"root": "/mnt/nvme"},
    "delete-run-keys": {"file": "/reports/rendezvous/job 1.json"},
    "start-worker": {"pid": 4711},
    "start-worker-unverified": {"pid": 4711},
}
MODES = {"restrict-key-mode": {"mode": 0o644}}


def step(kind: str, **args: Any) -> Step:
    given: Mapping[str, Any] = MODES.get(kind, {})
    return Step(kind=kind, owner="node-a", args=sample(kind, **given, **args), commands=("true",), effect="done", loses="the text step_100")


@pytest.mark.parametrize("kind", KINDS)
def test_every_fact_of_every_kind_is_known_after_the_action(kind: str) -> None:
    words, commands = undo_of(step(kind), {"fleet": "/etc/fleet.yaml"} | FOUND.get(kind, {}))
    assert words
    assert "{" not in words
    assert "SIGSTOP" in words or not [w for w in words.split() if w.strip(",.;:").isupper()], "a fact has no value"
    if KINDS[kind].undo is not nothing_to_type and kind != "continue-processes":  # its sample lists no process
        assert commands
    if KINDS[kind].undone.startswith(CANNOT):
        assert commands == ()


def test_a_fact_that_nobody_knows_leaves_its_name_and_no_command() -> None:
    words, commands = undo_of(step("delete-run-keys"))
    assert "saved in FILE" in words
    assert commands == ()


def test_without_facts_the_tables_show_names() -> None:
    assert in_words(KINDS["stop-pod"].undone) == "start pod POD on the platform; its container disk stays lost"
    assert not [kind for kind, row in KINDS.items() if "{" in in_words(row.undone)]


def test_the_restore_of_saved_keys_is_a_whole_command() -> None:
    _, commands = undo_of(step("delete-run-keys"), {"file": "/r/job 1.json", "fleet": "/etc/fleet.yaml"})
    assert commands == ("gpu-runbooks restore '/r/job 1.json' --fleet /etc/fleet.yaml",)


def test_a_continued_process_is_stopped_again_only_if_it_is_still_that_one() -> None:
    processes = [{"pid": 42, "start_ticks": 9, "command": "train", "uid": 0}]
    _, (line,) = undo_of(step("continue-processes", processes=processes, boot_id="abc"))
    assert "boot_id" in line
    assert "-STOP 42" in line
    assert "= 9 ]" in line


@pytest.mark.parametrize("kind", ["restrict-key-mode", "restore-folder-mode"])
def test_a_mode_is_given_back(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "a key"
    file.write_text("x")
    file.chmod(0o600)
    old = {"mode": 0o644} if kind == "restrict-key-mode" else {"from": 0o644}
    made = Step(kind=kind, owner="node-a", args=sample(kind) | old | {"path": str(file)}, commands=("true",), effect="done")
    _, commands = undo_of(made)
    subprocess.run(["sh", "-c", "\n".join(commands)], check=True)
    assert file.stat().st_mode & 0o777 == 0o644


def test_the_report_names_it_right_after_what_was_done() -> None:
    done = fixed()
    words, commands = undo_of(step("delete-run-keys"), {"file": "/r/job.json", "fleet": "FILE"})
    way = Undo(kind="delete-run-keys", words=words, commands=commands)
    for outcome in (Outcome.FIXED, Outcome.NOT_FIXED, Outcome.PARTLY_FIXED):
        acted = done.model_copy(update={"outcome": outcome, "acts": (done.acts[0].model_copy(update={"undo": (way,)}),)})
        text = plain(render(acted))
        _, _, after = text.partition("\nWhat was done\n")
        assert "How to undo it" in after
        assert "delete-run-keys on node-a: put them back with `gpu-runbooks restore`; they are saved in /r/job.json" in after
        assert "\n    gpu-runbooks restore /r/job.json --fleet FILE\n" in after
    assert "How to undo it" not in render(done)
