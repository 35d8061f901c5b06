"""Commands that the pages print: each is one that the command line takes; those that need no server run as printed.

Those that need a server are parsed here, not run.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.cli.parser import build_parser
from deployments.cli.words import Parser

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "deployments/*.md", "deployments/*/*.md", "runbooks/*/*.md", "tests/*.md")
PAGES = sorted(p for place in PLACES for p in ROOT.glob(place) if p.name != "CHANGELOG.md")
BLOCKS = ("README.md", "deployments/README.md")
COMMAND = re.compile(r"^    ((?:\.venv/bin/)?gpu-runbooks .+|make .+)$", re.M)
SPAN = re.compile(r"`(gpu-runbooks [^`]+)`")
ALERT = {
    "status": "firing", "startsAt": "2026-01-01T00:00:00Z", "fingerprint": "a1", "labels": {"alertname": "GpuZombie", "node": "node-a"},
}  # fmt: skip
FILES = {
    "fleet.yaml": "name: lab\nnodes:\n  - {name: node-a, local: true}\n",
    "train.log": "step 7\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    "payload.json": json.dumps({"receiver": "x", "status": "firing", "version": "4", "alerts": [ALERT]}),
}
OFFLINE = {
    "gpu-runbooks triage train.log": (3, ("What it shows is a starting point", "train.log:2")),
    "gpu-runbooks alerts test payload.json --fleet fleet.yaml": (0, ("zombie-gpu", "node-a", "nothing was started")),
}
"""Exit code and words of what needs neither server nor network. `triage` never exits 0."""


def printed(page: str) -> list[str]:
    """The command lines of its blocks, with their comments."""
    return COMMAND.findall((ROOT / page).read_text(encoding="utf-8"))


LINES = [(page, line) for page in BLOCKS for line in printed(page)]
SPANS = [(str(p.relative_to(ROOT)), span) for p in PAGES for span in SPAN.findall(p.read_text(encoding="utf-8"))]


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def test_the_pages_print_commands() -> None:
    assert len(LINES) >= 10
    assert len(SPANS) >= 30


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_printed_command_is_taken(page: str, line: str) -> None:
    program, *rest = words(line)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert set(rest) <= set(targets), line
    elif rest[0] != "triage":  # it reads its own words, and is run below
        found = build_parser().parse_args(rest)  # SystemExit where it is not
        assert found.command == rest[0]


@pytest.mark.parametrize(("page", "span"), SPANS)
def test_a_command_in_a_sentence_is_one_with_those_options(page: str, span: str) -> None:
    """A sentence may leave out what a command needs; what it does name is there."""
    parser: Parser | None = build_parser()
    for word in words(span)[1:]:
        assert parser is not None
        options = {name for action in parser._actions for name in action.option_strings}
        if word.startswith("--"):
            assert word.partition("=")[0] in options, (page, span)
        subs = next((a.choices for a in parser._actions if a.nargs == "A..." and isinstance(a.choices, dict)), None)
        if subs is not None and not word.startswith("-"):
            assert word in subs, (page, span)
            parser = subs[word]
        if word in ("triage", "restore"):
            return  # these read their own words


@pytest.mark.parametrize("line", OFFLINE)
def test_what_needs_no_server_runs_as_printed(line: str, tmp_path: Path) -> None:
    assert [" ".join(words(p)) for _, p in LINES].count(line) == 1, "the page prints another line now"
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PATH": path, "GPU_RUNBOOKS_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    code, said = OFFLINE[line]
    assert (done.returncode, done.stderr) == (code, "")
    assert [word for word in said if word not in done.stdout] == []
