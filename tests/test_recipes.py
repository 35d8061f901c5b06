"""CONTRIBUTING.md's recipes from "Change a limit" on, done as the page prints them, in a copy of the repository.

"Add a runbook" is done in tests/deployments/test_new_runbook.py.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.refusal import RefusalCode
from tests.deployments.test_new_runbook import Copy
from tests.test_contributing import COMMANDS, RECIPES, WHOLE

ENGINE = re.compile(r"<!-- engine test -->\n\n`(\S+)`\n\n```python\n(.*?)^```$", re.M | re.S)
LIMIT, FIRST = "Change a limit", "python -m deployments.runbook_pages"
HOLDS = "clock_confirmed_s: {value: 5, unit: s, source: "  # of the runbook that the page takes as its example
MENDED = [(r, line) for r in RECIPES for line in COMMANDS.findall(RECIPES[r]) if "pytest" in line and r != "Add a runbook"]
SIGNED = """    signatures:
      - {pattern: 'frobnicator daemon lost its lease', role: root, example: "frobd[7]: frobnicator daemon lost its lease",
        counter_example: "frobd[7]: frobnicator daemon renewed its lease"}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    folder = tmp_path_factory.mktemp("recipes")
    yield Copy(folder)
    shutil.rmtree(folder)


def printed(recipe: str) -> list[str]:
    """The commands of its block."""
    lines = [line for line in COMMANDS.findall(RECIPES[recipe]) if line.startswith("python")]
    assert lines[0] == FIRST
    return lines


def test_a_limit_is_changed_for_everybody(copy: Copy) -> None:
    """The page of the runbook follows, and a situation that holds the limit fails for one that is far too high."""
    knowledge, page = copy.root / "runbooks/host/runbook.yaml", copy.root / "runbooks/host/README.md"
    before, was = copy.files(), knowledge.read_text(encoding="utf-8")
    pages, _, situations = printed(LIMIT)
    assert copy.do(pages).returncode == 0
    assert copy.files() == before, "where nothing was changed nothing changes"
    assert HOLDS in was
    knowledge.write_text(was.replace(HOLDS, "clock_confirmed_s: {value: 86400, unit: s, source: tried by "))
    assert copy.do(pages).returncode == 0
    row = next(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `clock_confirmed_s`"))
    assert "86400" in row.replace(",", "")
    assert "tried by" in row
    failed = copy.do(f"PYTEST_ADDOPTS=-x {situations}")
    assert failed.returncode == 1, failed.stdout[-2000:]
    assert "FAILED tests/runbooks/host/" in failed.stdout
    knowledge.write_text(was)
    assert copy.do(pages).returncode == 0
    assert copy.files() == before


def test_a_limit_is_changed_for_one_fleet(copy: Copy, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    (check,) = re.findall(r"`(gpu-runbooks fleet check FILE)`", RECIPES[LIMIT])
    line = check.replace("FILE", str(fleet))
    for limits, code, said in (
        ("{host-limits: {clock_confirmed_s: 30}}", 0, "limit of host-limits: clock_confirmed_s: 30 ("),
        ("{host-limits: {clock_confirm_s: 30}}", 2, "nearest: clock_confirmed_s"),
        ("{host-limits: {clock_confirmed_s: soon}}", 2, "clock_confirmed_s"),
    ):
        fleet.write_text(f"nodes: [{{name: a, local: true}}]\nlimits: {limits}\n")
        done = copy.do(line)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_a_signature_is_added(copy: Copy, tmp_path: Path) -> None:
    """`triage` does not know the text before, and names the cause afterwards; the tests of the knowledge hold."""
    recipe = "Add a cause with a signature"
    knowledge, log = copy.root / "runbooks/host/runbook.yaml", tmp_path / "job.log"
    log.write_text("frobd[7]: frobnicator daemon lost its lease\n")
    (ask,) = re.findall(r"`(gpu-runbooks triage FILE)`", RECIPES[recipe])
    asked = f"{ask.replace('FILE', str(log))} --json"
    assert "thread-limit" not in copy.do(asked).stdout
    was = knowledge.read_text(encoding="utf-8")
    assert was.count("  thread-limit:\n") == 1
    knowledge.write_text(was.replace("  thread-limit:\n", f"  thread-limit:\n{SIGNED}"))
    done = copy.do(asked)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "thread-limit" in json.dumps(json.loads(done.stdout))
    proofs = printed(recipe)[1]
    held = copy.do(proofs.replace(" tests/corpus tests/runbooks/host", ""))  # what is left out judges other texts, for minutes
    knowledge.write_text(was)
    assert held.returncode == 0, held.stdout[-3000:]


@pytest.mark.parametrize("does", ["what it says", "nothing"])
def test_an_action_is_tried_through_the_engine(copy: Copy, does: str) -> None:
    """The file as the page prints it passes by the page's command, and fails for an action that says it was done and does nothing."""
    ((path, text),) = ENGINE.findall(WHOLE)
    (copy.root / path).unlink()
    (copy.root / path).write_text(text)
    (line,) = (line for line in printed("Add an action") if path in line)
    action = copy.root / "tasks/checkpoint/act_node.py"
    was = action.read_text(encoding="utf-8")
    works = 'return _result(act_on_node(context, a.node, {**a.plain(), "do": "mkdir"}))'
    assert was.count(works) == 1
    if does == "nothing":
        action.write_text(was.replace(works, 'return ActionResult(said=("created",))'))
    done = copy.do(line)
    action.write_text(was)
    how = (0, "1 passed") if does != "nothing" else (1, "assert 'not-fixed' == 'fixed'")
    assert (done.returncode, how[1] in done.stdout) == (how[0], True), done.stdout[-3000:]


@pytest.mark.parametrize(("recipe", "line"), MENDED)
def test_the_tests_of_a_recipe_are_there(copy: Copy, recipe: str, line: str) -> None:
    """The command as it is printed, with its tests counted instead of run: other runs run them, and for long."""
    done = copy.do(f"PYTEST_ADDOPTS='--collect-only -q' {line}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = [name for name in done.stdout.splitlines() if "::" in name or re.match(r"tests/\S+: \d+$", name)]
    files = {name.split("::")[0].split(":")[0] for name in found}
    for place in (w for w in line.split() if w.startswith("tests/")):
        assert any(f == place or f.startswith(f"{place}/") for f in files), (recipe, place)


def test_every_code_of_a_refusal_is_found_as_the_page_says() -> None:
    """By its name or its text, in the folders that the page names."""
    places = [p for folder in ("flows/engine", "tasks") for p in Path(folder).rglob("*.py")]
    text = "\n".join(p.read_text(encoding="utf-8") for p in places)
    lost = [c.value for c in RefusalCode if f"RefusalCode.{c.name}" not in text and f'"{c.value}"' not in text]
    assert lost == []
