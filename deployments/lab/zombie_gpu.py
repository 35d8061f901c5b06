"""The zombie-gpu rehearsal: a real sshd as the node, and a real process, stopped, that holds a (stub) GPU."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from deployments.lab.gpu import build_stub, holding
from deployments.lab.scenario import Scene
from deployments.lab.sshd import Sshd

NODE = "lab-node"
STORY = (
    "An sshd on a loopback port plays the node. A trainer on it was stopped (SIGSTOP) while it held 8.5 GiB of a GPU. "
    "The GPU is a stub that answers like a recorded H100; process, signals and SSH are real."
)
TRAINER = "import time\nwhile True:\n    sum(range(300_000))  # a step on the CPU\n    time.sleep(0.05)\n"


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Builds the fault below `folder` and takes it away again, whatever happens."""
    driver = build_stub(folder / "gpu")
    sshd = Sshd(folder, NODE).start()
    trainer = _start_trainer(folder)
    try:
        driver.show(holding(trainer.pid))
        time.sleep(0.3)
        trainer.send_signal(signal.SIGSTOP)
        yield Scene(
            story=STORY,
            runbook="zombie-gpu",
            target=NODE,
            fleet=_fleet(folder, sshd, driver.labels()),
            policy=_policy(folder),
            proof=lambda: _proof(trainer),
        )
    finally:
        _end(trainer)
        sshd.stop()


def _start_trainer(folder: Path) -> "subprocess.Popen[bytes]":
    script = folder / "train_selfplay.py"
    script.write_text(TRAINER, encoding="utf-8")
    out = (folder / "trainer.log").open("wb")
    argv = [sys.executable, str(script), "--run", "lab"]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _fleet(folder: Path, sshd: Sshd, labels: dict[str, str]) -> Path:
    node = sshd.node(labels=labels).model_dump(mode="json", exclude_defaults=True)
    job = {
        "name": "lab-trainer",
        "kind": "training",
        "match": re.escape(str(folder / "train_selfplay.py")),
        "warm_up_s": 0,
        "restart": [sys.executable, str(folder / "train_selfplay.py"), "--run", "lab"],
        "gpu_hour_cost": 2.5,
    }
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump({"name": "lab", "nodes": [node], "jobs": [job]}, sort_keys=False), encoding="utf-8")
    return path


def _policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text("mode: approve\nbudget: {nodes: 1000, window_s: 60}\n", encoding="utf-8")
    return path


def _proof(trainer: "subprocess.Popen[bytes]") -> str:
    code = trainer.poll()
    if code is not None:
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return f"the stopped trainer (pid {trainer.pid}) is gone: {how}"
    state = Path(f"/proc/{trainer.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    if state == "T":
        return f"the stopped trainer (pid {trainer.pid}) is still there"
    return f"the stopped trainer (pid {trainer.pid}) runs again"


def _end(trainer: "subprocess.Popen[bytes]") -> None:
    """Ends the trainer's session (a restarted trainer has one of its own: it is found by its script)."""
    if trainer.poll() is None:
        os.killpg(trainer.pid, signal.SIGKILL)
    trainer.wait(timeout=10)
