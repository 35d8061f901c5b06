"""Commands that ask the server, at a real terminal: laid out, coloured, the question whole; on a pipe the same words, plain. Own
state folder and server, real sshd and processes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lab import zombie_gpu
from deployments.lab.scenario import Scene
from runbooks.core.outcome import Outcome
from tests.support.cli import COLOUR, Cli

MARKS = ("\\_", "\\|", "\\*", "\\[", "**", "```", "|---", "<details>", "</details>", "&lt;", "\n#", "\n|")
"""Signs of Markdown and HTML that nobody wants to read."""


@pytest.fixture(scope="module")
def stuck(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A fault, and a server whose first page is about its fleet."""
    with zombie_gpu.scene(tmp_path_factory.mktemp("scene")) as scene:
        cli.json("up", "--fleet", str(scene.fleet))
        yield scene


@pytest.fixture(scope="module")
def asked(cli: Cli, stuck: Scene) -> str:
    """What a run showed at a terminal that waits for an answer."""
    code, shown = cli.seen("run", "zombie-gpu", stuck.target, "--mode", "approve", "--fleet", str(stuck.fleet))
    assert code == 1, shown
    return shown


@pytest.fixture(scope="module")
def run(asked: str) -> str:
    (found,) = set(re.findall(r"gpu-runbooks approve ([0-9a-f-]{36})", asked))
    return str(found)


def words(shown: str) -> str:
    """Without colours, and with a blank where a line was broken."""
    return " ".join(COLOUR.sub("", shown).split())


def is_laid_out(shown: str) -> None:
    assert COLOUR.search(shown), shown
    assert [mark for mark in MARKS if mark in COLOUR.sub("", shown)] == []
    assert not re.search(r"Traceback|\bERROR\b", shown), shown


def is_plain(cli: Cli, *command: str) -> str:
    """What the command prints on a pipe."""
    done = cli(*command)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert [mark for mark in MARKS if mark in done.stdout] == []
    return done.stdout


def in_order(parts: list[str], text: str) -> None:
    """Each of them stands somewhere below the one before it."""
    at = 0
    for part in (" ".join(part.split()) for part in parts):
        found = text.find(part, at)
        assert found >= 0, f"{part!r} does not stand below {text[:at][-40:]!r} in {text!r}"
        at = found + len(part)


def test_run_shows_the_whole_question_before_it_asks(cli: Cli, asked: str, run: str) -> None:
    is_laid_out(asked)
    facts = cli.json("show", run)
    found = facts["data"]["diagnosis"]
    commands = [c for p in found["plans"] for s in p["steps"] for c in s["commands"]]
    question = words(asked)
    question = question[: question.index("To refuse:")]
    for part in (found["headline"], found["symptom"], "Do not:", "Effect:", "Lost:", *found["waiting_costs"], *commands):
        assert " ".join(part.split()) in question, part
    ways = [f"gpu-runbooks approve {run} --choice '{name}'" for name in facts["choices"]]
    in_order([commands[0], commands[-1], "To allow", *ways], question)
    lines = COLOUR.sub("", asked).splitlines()
    assert [way for way in ways if not any(line.strip().startswith(way) for line in lines)] == []  # each is one line, to be copied


def test_run_says_first_what_the_report_says_first(cli: Cli, stuck: Scene) -> None:
    """With a server as without: verdict, evidence, what must not be done, what to do now, and where the whole report is."""
    code, shown = cli.seen("run", "zombie-gpu", stuck.target, "--fleet", str(stuck.fleet))
    assert code == 1, shown
    is_laid_out(shown)
    found = cli.json("run", "zombie-gpu", stuck.target, "--fleet", str(stuck.fleet), code=1)
    diagnosis = cli.json("show", found["run"])["data"]["diagnosis"]
    subject = diagnosis["causes"][0]["subject"]
    in_order([Outcome.UNHEALTHY.row.report, found["headline"], "Evidence", subject, "Do NOT", "Do now", "report:", "UI:"], words(shown))


def test_show_is_laid_out_and_on_a_pipe_plain(cli: Cli, run: str) -> None:
    code, shown = cli.seen("show", run)
    assert code == 0
    is_laid_out(shown)
    piped = is_plain(cli, "show", run)
    command = f"gpu-runbooks approve {run} --choice 'let it go on'"
    assert command in words(shown)
    assert command in piped


def test_status_names_what_waits_in_colour(cli: Cli, run: str) -> None:
    code, shown = cli.seen("status")
    assert code == 0
    is_laid_out(shown)
    assert "\x1b[1;33mWAITS FOR A PERSON" in shown
    in_order(["WAITS FOR A PERSON", f"gpu-runbooks show {run}", "WRONG NOW", "AT WORK", "SERVER"], words(shown))
    assert f"gpu-runbooks show {run}" in is_plain(cli, "status")


def test_nightly_is_a_table_worst_first(cli: Cli, stuck: Scene, tmp_path: Path) -> None:
    command = ("nightly", "--fleet", str(stuck.fleet), "--out", str(tmp_path))
    code, shown = cli.seen(*command)
    assert code == 0, shown
    is_laid_out(shown)
    table = words(shown)
    in_order(["lab: 1 of 1 node needs a person", "NODE RUNBOOK OUTCOME WHAT", f"{stuck.target} zombie-gpu sick", "report:", "UI:"], table)
    assert "\x1b[1;33msick" in shown
    piped = is_plain(cli, *command)
    assert re.search(rf"^{stuck.target} +zombie-gpu +sick +\S", piped, re.M), piped
    assert re.search(r"^NODE +RUNBOOK +OUTCOME +WHAT$", piped, re.M), piped
