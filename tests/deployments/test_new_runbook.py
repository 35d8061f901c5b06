"""`gpu-runbooks new-runbook`: CONTRIBUTING.md's "Add a runbook", done as the page prints it in a copy of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.cli.main import main
from deployments.cli.new_runbook import FILES, PACKAGES, checked, skeleton
from deployments.errors import CommandError
from tests.support.cli import PROGRAM

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### Add a runbook\n")[2].partition("\n### ")[0]
COMMANDS = re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S), re.M)
SHOWN = dict(re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
NAME = "read-only-mounts"
FOLDERS = ("runbooks", "tasks", "flows", "deployments", "tests")


class Copy:
    """A copy of the repository, with this interpreter's packages and our code from the copy."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        for name in FOLDERS:
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"):
            shutil.copy(path, self.root)
        programs = {"gpu-runbooks": f"-c '{PROGRAM}'", "python": ""}
        (folder / "bin").mkdir()
        for program, first in programs.items():
            path = folder / "bin" / program
            path.write_text(f"#!/bin/sh\nexec {sys.executable} {first} \"$@\"\n")
            path.chmod(0o755)
        (folder / "tmp").mkdir()
        own = {"PYTHONPATH": str(self.root), "GPU_RUNBOOKS_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "GPU_RUNBOOKS_", "PYTEST_"))}
        self.env = plain | own | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def do(self, line: str) -> "subprocess.CompletedProcess[str]":
        """The line, given at the checkout's root."""
        return subprocess.run(["sh", "-c", line], cwd=self.root, env=self.env, capture_output=True, text=True, timeout=900, check=False)

    def files(self) -> dict[str, str]:
        """Every source file and page."""
        pages = [p for p in self.root.iterdir() if p.suffix == ".md"]
        found = [p for name in FOLDERS for p in (self.root / name).rglob("*") if p.suffix in (".py", ".yaml", ".md")]
        return {str(p.relative_to(self.root)): p.read_text(encoding="utf-8") for p in (*pages, *found)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    folder = tmp_path_factory.mktemp("new")
    yield Copy(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made(copy: Copy) -> tuple[dict[str, str], dict[str, Any]]:
    """The files before the page's first command, and what that printed."""
    before = copy.files()
    assert COMMANDS[0] == f"gpu-runbooks new-runbook {NAME}"
    done = copy.do(f"{COMMANDS[0]} --json")
    assert done.returncode == 0, done.stderr
    return before, json.loads(done.stdout)


def test_the_recipe_works_as_printed(copy: Copy, made: tuple[dict[str, str], dict[str, Any]]) -> None:
    """The files are those of the page; structure, knowledge, situations, registration and documents hold with them."""
    before, facts = made
    after = copy.files()
    assert {name: after[name] for name in facts["files"]} == SHOWN == skeleton(NAME)
    packages = {p.format("read_only_mounts") for p in PACKAGES}
    assert after.keys() - before.keys() == {*SHOWN, *packages, "runbooks/read_only_mounts/README.md"}
    changed = {name for name, text in before.items() if after[name] != text}
    assert changed == {"README.md", "deployments/prefect.yaml"}, "nothing is registered by hand"
    assert len(facts["todo"]) == sum(text.count("TODO") for text in SHOWN.values()) > 5
    assert COMMANDS[1] in facts["next"]
    for line in COMMANDS[1:]:
        done = copy.do(line)
        ends = (0, 1, 3) if " run " in line else (0,)  # as this machine is found
        assert done.returncode in ends, f"{line}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
        if "pytest" in line:
            assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 20, done.stdout[-500:]
            assert not re.search(r"\d+ (?:skipped|failed|error)", done.stdout), done.stdout[-500:]
        elif " run " in line:
            assert re.search(r"^report: \S+\.md$", done.stdout, re.M), done.stdout
    assert copy.files() == after, "the last commands change nothing where nothing was changed"
    assert copy.do("python -m ruff check --no-cache .").returncode == 0
    typed = copy.do('python -m mypy --cache-dir "$TMPDIR/mypy" runbooks/read_only_mounts tasks/read_only_mounts')
    assert "Success: no issues found in 5 source files" in typed.stdout, typed.stdout


@pytest.mark.usefixtures("made")
def test_the_situations_fail_for_a_wrong_judgment(copy: Copy) -> None:
    path = copy.root / "runbooks/read_only_mounts/diagnose.py"
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace('asked = "ro" in', 'asked = "rw" in'))
    done = copy.do("python -m pytest -q tests/runbooks/test_situations.py")
    path.write_text(right)
    assert done.returncode == 1
    assert "read-only-mounts: the data disk is read-only on purpose: expected" in done.stdout


@pytest.mark.usefixtures("made")
def test_nothing_is_overwritten_and_what_fails_leaves_nothing(copy: Copy) -> None:
    before = copy.files()
    again = copy.do(COMMANDS[0])
    assert (again.returncode, again.stdout) == (2, "")
    assert "the runbook read-only-mounts is there already: runbooks/read_only_mounts" in again.stderr
    broken = copy.root / "runbooks/host/runbook.yaml"
    right = broken.read_text(encoding="utf-8")
    broken.write_text(right.replace("causes:", "cuases:"))
    failed = copy.do("gpu-runbooks new-runbook another-one")
    broken.write_text(right)
    assert failed.returncode == 2, failed.stderr
    assert "nothing was written" in failed.stderr
    assert copy.files() == before
    assert not list(copy.root.rglob("another_one"))


HOSTILE = (
    "", " ", "-", "--", "A", "a_b", "a--b", "-a", "a-", "1a", "../x", "a/b", "a b", "a\nb", "a\n", "a;b", "é", "import", "class", "a.b",
    "{{ 7*7 }}", "x" * 41, "a-b-c-d-e-f", "$(id)", "null", "yes", "async",
)  # fmt: skip
TAKEN = ("zombie-gpu", "gpu", "core", "remote", "context", "triage", "nightly", "sweep", "nightly-shard", "act", "test-unread")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="cannot be the name of a runbook") as e:
        checked(name, ROOT)
    assert e.value.exit_code == 2


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    """By a runbook, a subject, a shared folder, a module, another flow, a test."""
    with pytest.raises(CommandError, match=r"is there already|is the name of a flow"):
        checked(name, ROOT)


@pytest.mark.parametrize("name", ["a", "zz-9", "s3-latency", "core2"])
def test_the_code_is_in_order_whatever_the_name(name: str, tmp_path: Path) -> None:
    """Imports are sorted by it."""
    for path, text in skeleton(name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert checked(name, ROOT) == name.replace("-", "_")


def test_outside_of_a_checkout_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-runbook", NAME]) == 2
    assert "is not in a checkout of gpu-runbooks" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_new_runbook_is_small() -> None:
    """At most five files, and about 60 lines of code besides the knowledge."""
    texts = skeleton(NAME)
    assert len(texts) == len(FILES) <= 5
    code = [line for path, text in texts.items() if path.endswith(".py") for line in text.splitlines()]
    assert len([line for line in code if line.strip() and not line.strip().startswith(('"""', "#"))]) <= 75
