"""A run that asks a person, as the command line shows it and takes the answer: own state folder and server, real sshd and processes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lab import zombie_gpu
from deployments.lab.scenario import Scene
from tests.support.cli import Cli


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with zombie_gpu.scene(tmp_path_factory.mktemp("scene")) as scene:
        yield scene


@pytest.fixture(scope="module")
def served(cli: Cli) -> Cli:
    """With its server up: the first start takes as long as a test."""
    cli.json("up")
    return cli


def asking(stuck: Scene) -> list[str]:
    return ["run", "zombie-gpu", stuck.target, "--mode", "approve", "--fleet", str(stuck.fleet)]


@pytest.fixture(scope="module")
def asked(cli: Cli, stuck: Scene) -> str:
    """What a run printed that waits for an answer: the tests look at it, and the last one answers."""
    done = cli(*asking(stuck))
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.fixture
def run(asked: str) -> str:
    (found,) = set(re.findall(r"gpu-runbooks approve ([0-9a-f-]{36})", asked))
    return str(found)


def test_freeze_refuses_and_exits_4(served: Cli, stuck: Scene) -> None:
    assert served("freeze", "change window").returncode == 0
    try:
        facts = served.json(*asking(stuck), code=4)
        assert facts["outcome"] == "refused"
        assert "change window" in Path(facts["report"]).read_text()
        assert served.json("status")["freeze"]["why"] == "change window"
    finally:
        assert served("unfreeze").returncode == 0


def test_rejected_by_name(cli: Cli, stuck: Scene) -> None:
    facts = cli.json(*asking(stuck), code=1)
    assert facts["outcome"] == "waiting"
    assert facts["run"] in [w["run"] for w in cli.json("status")["waiting"]]
    last = cli.json("reject", facts["run"][:8], "--who", "bo", "--why", "leave it", "--wait", code=1)
    assert last["outcome"] == "rejected"
    assert "leave it" in Path(last["report"]).read_text()
    assert "still there" in stuck.proof()


def test_the_question_is_printed_whole(cli: Cli, asked: str, run: str) -> None:
    """Seen, why, do not, plans with commands, cost of waiting, how to answer; `show` prints it again."""
    facts = cli.json("show", run[:8])
    found = facts["data"]["diagnosis"]
    commands = [c for p in found["plans"] for s in p["steps"] for c in s["commands"]]
    for words in (found["headline"], found["symptom"], "Do not:", "Effect:", "Lost:", "Not decided", *found["waiting_costs"], *commands):
        assert words in asked, words
    assert facts["question"] in asked
    assert facts["choices"] == ["let it go on", "clean up only", "clean up and restart"]
    for name in facts["choices"]:
        assert f"gpu-runbooks approve {run} --choice '{name}'" in asked
    again = cli("show", facts["name"])
    assert (again.returncode, facts["question"] in again.stdout, "What was seen" in again.stdout) == (0, True, True)
    assert run in cli("show", run, "--web").stdout


@pytest.mark.parametrize("words", [(), ("--choice", "nonsense")])
def test_one_of_several_plans_is_named(cli: Cli, run: str, words: tuple[str, ...]) -> None:
    refused = cli("approve", run, *words)
    assert refused.returncode == 2, refused.stdout
    assert "--choice 'clean up only'" in refused.stderr


def test_who_approved_is_never_empty(cli: Cli, run: str) -> None:
    last = cli.json("approve", run, "--choice", "clean up only", "--wait", env={"USER": "", "LOGNAME": ""})
    assert last["outcome"] == "fixed"
    permission = json.loads(Path(last["report"]).with_suffix(".json").read_text())["permission"]
    assert permission["who"].strip()
    assert permission["choice"] == "clean up only"
    after = cli("show", run)
    assert "Fixed and verified" in after.stdout
    assert "gpu-runbooks approve" not in after.stdout
