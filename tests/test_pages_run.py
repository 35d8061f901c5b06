"""Every command block of README.md, deployments/README.md and the guides, run as it is printed, in a clone with a server of its own.

Commands run in the order of the pages, against a lab node (a real sshd, a real stopped process); a block of output is compared
in shape with what the command before it wrote.
"""

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import httpx
import pytest
import yaml

from deployments.lab import zombie_gpu
from flows.known_names import policy_faults
from runbooks.core.config import parse_yaml
from runbooks.core.policy import Policy

ROOT = Path(__file__).parents[1]
GUIDES = tuple(sorted(str(p.relative_to(ROOT)) for p in (ROOT / "runbooks").rglob("guide.md")))
PAGES = ("README.md", "deployments/README.md", *GUIDES)
COMMAND = re.compile(r"^    (\S.*)$", re.M)
POLICY = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
SHOWN = re.compile(r"^```markdown\n(.*?)^```$", re.M | re.S)
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LOG = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
ALERT = ROOT / "tests/gateway/payloads/alertmanager.json"


class Ends(NamedTuple):
    """What a printed command is to do."""

    code: int
    says: tuple[str, ...]  # patterns, in this order
    serves: str = ""  # address of one that stays until it is told to end
    first: str = ""  # what one that stays and has no address says on stderr


PATHS = (r"report: \S+\.md\n", r"UI: +http://127\.0\.0\.1:\d+/\S+")
RUN = {
    "make nightly": Ends(0, (r"host-limits", *PATHS)),
    ".venv/bin/gpu-runbooks lab zombie-gpu": Ends(
        0, ("1 of 4", "2 of 4", "3 of 4", "kill -CONT", "4 of 4", "runs again", r"whole report: \S+\.md")
    ),
    "gpu-runbooks run zombie-gpu node-a --fleet fleet.yaml": Ends(1, ("is stopped", *PATHS)),
    "gpu-runbooks run zombie-gpu node-a --fleet fleet.yaml --policy policy.yaml --mode approve": Ends(
        1, (*PATHS, "kill -CONT", r"gpu-runbooks approve")
    ),
    "gpu-runbooks show RUN": Ends(0, ("is stopped", "kill -CONT", "gpu-runbooks approve")),
    "gpu-runbooks approve RUN --choice 'let it go on' --who ana --wait": Ends(0, ("Fixed", *PATHS)),
    "gpu-runbooks nightly --fleet fleet.yaml": Ends(0, ("zombie-gpu", *PATHS)),
    "gpu-runbooks triage train.log": Ends(1, ("illegal memory access",)),
    "gpu-runbooks up --gateway --fleet fleet.yaml --policy policy.yaml": Ends(0, (r"UI: +http://", r"alerts: +http://127\.0\.0\.1:8765/alerts/")),
    "gpu-runbooks gateway --fleet fleet.yaml --policy policy.yaml": Ends(0, (), "http://127.0.0.1:8765/healthz"),
    "gpu-runbooks watch --fleet fleet.yaml --policy policy.yaml --mode auto": Ends(0, (), first="watching trainer on node-a"),
    "gpu-runbooks alerts test payload.json --fleet fleet.yaml": Ends(0, ("run zombie-gpu on node-a", "nothing was started")),
}
LOGGED = {  # `logs` finds these lines of the orchestrator's log, which says what it did at 03:10 and now
    "gpu-runbooks logs orchestrator --fleet fleet.yaml --since 2h": Ends(0, ("1 read whole", "nothing to do now")),
    "gpu-runbooks logs orchestrator --fleet fleet.yaml --since 30m": Ends(0, ("1 read whole", "nothing to do now")),
    "gpu-runbooks logs orchestrator --fleet fleet.yaml --at 03:10": Ends(0, ("cycle #12", "nothing to do then")),
    "gpu-runbooks logs worker/gpu-20260301_101500-1a2b3c4d --fleet fleet.yaml": Ends(1, ("could not be read", "took task 7d0c0e3e")),
    "gpu-runbooks logs export.json orchestrator.log --task 7d0c0e3e": Ends(0, ("2 read whole", "took task 7d0c0e3e")),
}
RUN |= LOGGED
NOT_RUN = {
    "make test": "is what runs this test, or installs packages of the system as root and runs for a quarter of an hour",
    "gpu-runbooks logs orchestrator --fleet fleet.yaml --follow": "stays until it is interrupted; tests/logs/test_log_follow.py runs it",
}
"""Printed commands that cannot be run here, and why."""


def printed() -> list[str]:
    """Every command of the pages' blocks, without the comment behind it, in order."""
    texts = [FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")) for page in PAGES]
    return [line.partition("  #")[0].strip() for text in texts for line in COMMAND.findall(text)]


def test_every_printed_command_is_run_or_has_a_reason() -> None:
    assert printed() == list(dict.fromkeys(printed()))
    assert not set(RUN) & set(NOT_RUN)
    assert {*RUN, *NOT_RUN} == set(printed())
    assert all(len(why) > 40 for why in NOT_RUN.values())


def cloned() -> list[str]:
    """The files that a clone has once this tree is committed."""
    argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for path in listed if path and (ROOT / path).is_file()]


class Tree:
    """The copied tree, a home folder of its own, and the node that its fleet file names.

    The first command of the pages makes its .venv and installs it there; the packages of its lock are found where this
    interpreter has them, which saves their download and nothing else.
    """

    def __init__(self, folder: Path, node: Path) -> None:
        self.folder, self.run = folder, ""
        for path in cloned():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)
        fleet = yaml.safe_load((node / "fleet.yaml").read_text())
        fleet["nodes"][0]["name"] = "node-a"
        (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))
        shutil.copy(node / "policy.yaml", folder / "policy.yaml")
        shutil.copy(ALERT, folder / "payload.json")
        (folder / "train.log").write_text(LOG)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "GPU_RUNBOOKS_", "MAKE", "ARGS"))}
        (folder / "home").mkdir()
        own = {"HOME": str(folder / "home"), "PATH": f"{folder / '.venv/bin'}:{os.environ['PATH']}"}
        self.env = plain | own | {"PYTHON": sys._base_executable, "PYTHONPATH": site.getsitepackages()[0]}  # type: ignore[attr-defined]

    def start(self, line: str) -> "subprocess.Popen[str]":
        """The line as it stands on the page; RUN is the run of the line before it."""
        line = re.sub(r"\bRUN\b", self.run, line)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-c", f"exec {line}"], cwd=self.folder, env=self.env, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )

    def do(self, line: str) -> tuple[int, str]:
        """Exit code and output of a line."""
        ran = self.start(line)
        out, err = ran.communicate(timeout=300)
        if found := re.search(r"UI: +\S*/flow-run/([0-9a-f-]{36})", out):
            self.run = found[1]
        return ran.returncode, out + err


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    node = tmp_path_factory.mktemp("node")
    with zombie_gpu.scene(node):
        made = Tree(tmp_path_factory.mktemp("tree"), node)
        yield made
        assert made.do("gpu-runbooks down --now")[0] == 0


@pytest.mark.parametrize("line", [line for line in printed() if line in RUN])
def test_a_printed_command_does_what_its_page_says(tree: Tree, line: str) -> None:
    ends = RUN[line]
    if ends.serves:
        serves(tree, line, ends)
        return
    if ends.first:
        stays(tree, line, ends)
        return
    code, said = logged(tree, line) if line in LOGGED else tree.do(line)
    assert code == ends.code, said
    assert re.search(".*".join(ends.says), said, re.S), said
    if line.endswith("lab zombie-gpu"):
        is_shaped_like(SHOWN.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0], said)


def logged(tree: Tree, line: str) -> tuple[int, str]:
    """A line about logs, where the fleet file names one of an orchestrator."""
    now, fleet = datetime.now(UTC), tree.folder / "fleet.yaml"
    then = now.replace(hour=3, minute=10, second=0, microsecond=0)
    then -= timedelta(days=then > now)
    rows = [
        f"{at:%Y-%m-%d %H:%M:%S},000 - {what}"
        for at, word, cycle in ((then, "then", 12), (now, "now", 13))
        for what in (
            f"__main__ - INFO - ORCHESTRATOR CYCLE #{cycle}", f"control_loop - INFO - SCALING DECISION ANALYSIS: nothing to do {word}",
            "control_loop - INFO - worker of gpu-20260301_101500-1a2b3c4d took task 7d0c0e3e",
        )
    ]  # fmt: skip
    (tree.folder / "orchestrator.log").write_text("\n".join(rows) + "\n")
    (tree.folder / "export.json").write_text(json.dumps([{"timestamp": then.isoformat(), "message": rows[2]}]))
    before = fleet.read_text()
    place = {"path": str(tree.folder / "orchestrator.log")}
    fleet.write_text(yaml.safe_dump(yaml.safe_load(before) | {"orchestrator": {"log_sources": {"files": [place]}}}))
    try:
        return tree.do(line)
    finally:
        fleet.write_text(before)


def serves(tree: Tree, line: str, ends: Ends) -> None:
    """A command that stays: it answers where the page says, and ends when it is told to."""
    tree.do("gpu-runbooks down --now")  # the gateway that `up` started has that address
    tree.do("gpu-runbooks up")
    server = tree.start(line)
    deadline = time.monotonic() + 90
    while True:
        try:
            assert httpx.get(ends.serves, timeout=10).json()
            break
        except httpx.TransportError:
            assert server.poll() is None, server.communicate(timeout=10)
            assert time.monotonic() < deadline
            time.sleep(0.3)
    server.send_signal(signal.SIGTERM)
    _, err = server.communicate(timeout=60)
    assert server.returncode == ends.code, err


def stays(tree: Tree, line: str, ends: Ends) -> None:
    """The same for a command without an address. Its page is about containers, so the fleet file names one."""
    fleet = tree.folder / "fleet.yaml"
    before = fleet.read_text()
    fleet.write_text(yaml.safe_dump(yaml.safe_load(before) | {"containers": [{"name": "trainer", "node": "node-a"}]}))
    tree.do("gpu-runbooks up")
    command = tree.start(line)
    said, told = "", Timer(90, command.kill)
    told.start()
    assert command.stderr is not None
    for row in command.stderr:
        said += row
        if ends.first in row:
            command.send_signal(signal.SIGTERM)
            break
    said += command.communicate(timeout=60)[1]
    told.cancel()
    fleet.write_text(before)
    assert ends.first in said, said
    assert command.returncode == ends.code, said


def test_what_a_guide_shows_of_a_policy_file_is_one() -> None:
    """Its kinds, modes and numbers are taken as they stand there."""
    shown = [(page, text) for page in GUIDES for text in POLICY.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert shown
    for page, text in shown:
        assert parse_yaml(text, Policy, page, policy_faults).kinds, page


def test_every_page_with_commands_is_run_by_somebody() -> None:
    """Here, or by the tests of CONTRIBUTING.md. A runbook's README.md is made from its guide."""
    pages = [path for path in cloned() if path.endswith(".md") and not path.startswith("tests/")]
    assert set(PAGES) < set(pages)
    others = [p for p in pages if p not in PAGES and p != "CONTRIBUTING.md"]
    texts = (FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")) for page in others)
    assert {line.partition("  #")[0].strip() for text in texts for line in COMMAND.findall(text)} - set(printed()) == set()


def is_shaped_like(shown: str, said: str) -> None:
    """The report that a page shows has the headings, in their order, and the lines (or their beginnings) of one written now."""
    path = re.findall(r"whole report: (\S+\.md)", said)[-1]
    written = Path(path).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ .*", written, re.M)
    wanted = re.findall(r"^#+ .*", shown, re.M)
    assert [h for h in headings if h in wanted] == wanted
    texts = "".join(f"\n{shape(line)}" for line in written.splitlines())
    assert [line for line in shown.splitlines() if f"\n{shape(line)}" not in texts] == []


def shape(line: str) -> str:
    """A line without its numbers and times, and whether a process that runs was on a CPU in that moment."""
    return re.sub(r"[\d.:-]*\d", "0", line).replace("(state S)", "(state R)")
