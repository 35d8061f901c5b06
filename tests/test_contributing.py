"""CONTRIBUTING.md's recipes name files, modules and commands that are there; what a page prints as a command is one."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from deployments.cli.parser import build_parser
from deployments.gateway.metrics import Metrics
from runbooks.core.knowledge import CauseKnowledge, Runbook, Signature, runbook_slugs
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.report import ActionRecord, Report

ROOT = Path(__file__).parents[1]
WHOLE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = re.sub(r"<!-- (new runbook|engine test) -->.*?<!-- end of \1 -->", "", WHOLE, flags=re.S)
RECIPES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE.partition("## Recipes")[2].partition("<!-- refusals -->")[0], re.M | re.S))
SPAN = re.compile(r"`([^`\n]+)`")
ROOMS = ("runbooks", "tasks", "flows", "deployments", "tests")
COMMANDS = re.compile(r"^    (\S.*)$", re.M)


def test_there_are_the_five_recipes() -> None:
    assert list(RECIPES) == [
        "Add a runbook", "Change a limit", "Add a cause with a signature", "Add an action", "Find out why a run was refused",
    ]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_file_that_a_recipe_names_is_there(recipe: str) -> None:
    """SUBJECT stands for any subject; a folder of all of them must hold at least one such file."""
    spans = [s for s in SPAN.findall(RECIPES[recipe]) if re.match(rf"(?:{'|'.join(ROOMS)})/\S*$", s)]
    assert spans
    assert [s for s in spans if not list(ROOT.glob(s.replace("SUBJECT", "*").rstrip("/")))] == []


def commands() -> list[str]:
    """Every command of the page's blocks and sentences."""
    blocks = [line.partition("  #")[0].strip() for line in COMMANDS.findall(PAGE.partition("## Recipes")[2])]
    return blocks + [s for s in SPAN.findall(PAGE) if re.match(r"(?:gpu-runbooks|python -m|make) ", s)]


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_is_one(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    elif program == "gpu-runbooks":
        if words[0] not in ("triage", "new-runbook") and "FILE" not in words:
            build_parser().parse_args(words)  # SystemExit where it is not
        assert words[0] in build_parser().format_help()
    else:
        assert program in ("python", ".venv/bin/python")
        assert words[0] == "-m"
        assert find_spec(words[1]) is not None
        assert [w for w in words[2:] if w.startswith("tests/") and not (ROOT / w).exists()] == []


def test_each_recipe_ends_in_commands_that_try_it() -> None:
    """But the last, which changes nothing."""
    for recipe, text in list(RECIPES.items())[:-1]:
        lines = COMMANDS.findall(text)
        assert "python -m deployments.runbook_pages" in lines, recipe
        assert any("pytest" in line for line in lines), recipe
        assert all(k in runbook_slugs() for k in re.findall(r"-k ([a-z-]+)", text) if recipe != "Add a runbook"), recipe


def test_the_words_of_the_recipes_are_those_of_the_code() -> None:
    """Fields of runbook.yaml and of a report, and the metric."""
    text = RECIPES["Add a cause with a signature"]
    for word in ("decided_by", "remedy", "must_not", "rests_on", "excluded_by"):
        assert f"`{word}`" in text
        assert word in CauseKnowledge.model_fields
    for word in ("pattern", "role", "example", "counter_example"):
        assert f"`{word}`" in text
        assert word in Signature.model_fields
    for word in ("actions", "plan"):
        assert f"`{word}`" in RECIPES["Add an action"]
        assert word in Runbook.model_fields
    text = RECIPES["Find out why a run was refused"]
    assert {"refusals", "acts"} <= set(Report.model_fields)
    assert ActionRecord.model_fields["refused"].annotation == Refusal | None
    assert "*What held it back*" in text
    assert "What held it back:" in (ROOT / "runbooks/core/templates/report.md.j2").read_text(encoding="utf-8")
    (metric,) = re.findall(r"gpu_runbooks_gateway_\w+", text)
    assert metric in Metrics(lambda: (0, 0), lambda: 0).text().decode()
    for code in re.findall(r"RefusalCode\.(\w+)", text):
        assert RefusalCode[code].value in text
