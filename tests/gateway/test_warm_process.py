"""The warm process hangs, or cannot be started again: its runs go to the workers, another one is started, and it shows."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deployments.gateway import runner
from deployments.gateway.runner import Runner
from tests.support.waiting import until

READY = 'import json, os, subprocess, sys, time\nsay = lambda **d: print(json.dumps(d), flush=True)\nsay(ready=os.getpid())\n'
HANGS = READY + "time.sleep(600)\n"
FORKS_AND_HANGS = READY + (
    "run = json.loads(sys.stdin.readline())['run']\n"
    "p = subprocess.Popen(['sleep', '0.3'])\n"
    "start = int(open(f'/proc/{p.pid}/stat').read().rsplit(')', 1)[1].split()[19])\n"
    "say(forked=run, pid=p.pid, start=start)\ntime.sleep(600)\n"
)
ONLY_ONCE = (
    "import os, sys\nonce = sys.argv[1]\nif os.path.exists(once): sys.exit(1)\nopen(once, 'w').close()\n" + READY + "sys.stdin.readline()\n"
)


class Made:
    """A runner on a warm process that does what `code` says."""

    def __init__(self, code: str, once: Path) -> None:
        self.ended: list[tuple[str, bool]] = []
        self.runner = Runner(1, lambda run, clean: self.ended.append((run, clean)), [sys.executable, "-c", code, str(once)])
        self.runner.start()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], Made]]:
    for name, seconds in {"FORK_LIMIT_S": 0.5, "DOWN_LIMIT_S": 0.5, "RESTART_WAIT_S": 0.1, "LOOK_EVERY_S": 0.05}.items():
        monkeypatch.setattr(runner, name, seconds)
    found: list[Made] = []

    def make(code: str) -> Made:
        found.append(Made(code, tmp_path / "once"))
        return found[-1]

    yield make
    for m in found:
        m.runner.close()
        process = m.runner._process or (m.runner._coming[0] if m.runner._coming else None)
        if process:
            process.kill()


@pytest.mark.parametrize("code", [HANGS, FORKS_AND_HANGS], ids=["before it forks", "with the end of a run unsaid"])
def test_a_warm_process_that_hangs_is_replaced_and_its_runs_come_back(made: Callable[[str], Made], code: str) -> None:
    m = made(code)
    assert m.runner.submit("a", "zombie-gpu")
    assert m.runner.submit("b", "zombie-gpu")  # waits in line
    until(lambda: ("a", False) in m.ended, 20)
    until(lambda: ("b", False) in m.ended, 20)
    assert m.runner.restarts >= 1
    until(lambda: m.runner.counts() == (0, 0), 20)


def test_a_warm_process_that_does_not_start_again_leaves_the_runs_to_the_workers(made: Callable[[str], Made]) -> None:
    m = made(ONLY_ONCE)
    assert m.runner.submit("a", "zombie-gpu")
    assert m.runner.submit("b", "zombie-gpu")
    until(lambda: sorted(m.ended) == [("a", False), ("b", False)], 20)
    assert not m.runner.able
    assert not m.runner.submit("c", "zombie-gpu")  # the caller hands it to a worker
    assert m.runner.counts() == (0, 0)
