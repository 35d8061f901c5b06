"""No command ends in a traceback with a living server behind it, whatever it is given: every command, in this process.

The files of each kind are tried without a server (test_fuzz_commands.py); here are ids, names and words that reach the server.
"""

import argparse
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.states import Cancelled

from deployments.cli import follow
from deployments.cli.main import main
from deployments.errors import NO_WORKER
from deployments.state import auth_string
from flows import store
from tests.deployments.test_fuzz_commands import CODES, COMMANDS, wrong
from tests.support.commands import EXPECTED, PATHS, alone
from tests.support.engine_rig import Rig
from tests.support.set_state import set_state

UNKNOWN, RUN = str(uuid4()), "RUN"  # of a run that asks: put in when its turn has come
HOSTILE = (
    "", UNKNOWN, UNKNOWN[:8], "x" * 70_000, "a\x1b[31m\nb\x07c", "☃\u202e <b>[x](http://evil.example)</b> {{ 7*7 }}", "\udcff",
    "'; DROP TABLE flow_run; --", "%s%n/../..", "label:a=b",
)  # fmt: skip
ASKED = ("show", "approve", "reject")


@pytest.fixture
def online(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """The server as one of somebody's own: nothing of a command is left in its state folder, and `down` leaves it alone.

    What a command starts on it is stored there and not carried out.
    """
    monkeypatch.setattr("flows.launch.run_here", lambda _flow, run: set_state(str(run.id), Cancelled(message="a test")))
    auth = auth_string()
    monkeypatch.setattr("flows.pool.live_workers", lambda *_: 0)  # `--wait` is for a worker, and none is here
    monkeypatch.setattr(follow, "FIRST_S", 0.5)
    monkeypatch.setattr(follow, "PATIENCE_S", 0.5)
    with alone(tmp_path, monkeypatch):
        monkeypatch.setenv("PREFECT_API_URL", rig.state.api)
        monkeypatch.setenv("PREFECT_API_AUTH_STRING", auth)
        yield rig
        main(["unfreeze"])


class Asking:
    """A run that asks; another one once it was answered."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.run, self.runs = rig, "", 0

    def __call__(self) -> str:
        state = store.read_run(self.run).state if self.run else None
        if state is None or not state.is_paused():
            self.run, self.runs = self.rig.world().run("approve"), self.runs + 1
        return self.run


@pytest.fixture
def asking(rig: Rig, nothing_left: None) -> Asking:
    return Asking(rig)


def given(words: tuple[str, ...], folder: Path) -> list[str]:
    """What the command is meant to be called with; `run` without `--no-server`."""
    if words[0] in ASKED:
        return [RUN, *(["--choice", "clean up only"] if words == ("approve",) else []), *(["--who", "ana"] if words != ("show",) else [])]
    (folder / "file").write_text("{}")
    return [w.format(file=folder / "file", out=folder) for w in EXPECTED.get(words, []) if w != "--no-server"]


def calls(words: tuple[str, ...], parser: argparse.ArgumentParser, meant: list[str]) -> Iterator[list[str]]:
    """As meant; each argument with every hostile text; each option that is no path with two of them, in turn."""
    yield [*words, *meant]
    texts = cycle(HOSTILE)
    for place, action in enumerate(a for a in parser._actions if not a.option_strings and a.dest != "help"):
        yield from ([*words, *meant[:place], text, *meant[place + 1 :]] for text in HOSTILE if action.metavar not in PATHS)
    for action in parser._actions:
        if not action.option_strings or action.metavar in PATHS or isinstance(action, argparse._HelpAction):
            continue
        if action.nargs == 0:
            yield [*words, *meant, action.option_strings[-1]]
        else:
            yield from ([*words, *meant, f"{action.option_strings[-1]}={next(texts)}"] for _ in range(2))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_argument_hostile_in_turn(
    words: tuple[str, ...], online: Rig, asking: Asking, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for argv in calls(words, COMMANDS[words], given(words, tmp_path)):
        found.append(wrong([asking() if w == RUN else w for w in argv], capsys, (CODES | {NO_WORKER}) - {5}))
    assert [w for w in found if w] == []
    if words in (("approve",), ("reject",)):
        assert asking.runs > 1, "no answer was taken: nothing hostile reached the server"


@pytest.mark.parametrize("words", [["run", "host-limits", "local"], ["nightly"], ["watch"], ["gateway", "--no-auth"]], ids=lambda w: w[0])
def test_a_folder_for_reports_that_cannot_be_used(
    words: list[str], online: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is begun for it (more of them without a server: test_reports_folder.py)."""
    (tmp_path / "file").touch()
    before = {r.id for r in store.find_runs([], limit=200)}
    for place in (tmp_path / "file" / "x", "/proc/x"):
        assert wrong([*words, "--out", str(place)], capsys, {2}) == ""
    assert {r.id for r in store.find_runs([], limit=200)} <= before
