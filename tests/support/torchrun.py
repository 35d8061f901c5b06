"""Real torchrun agents on CPU with gloo, each in its own session; ended by recorded pid."""

import fcntl
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.waiting import until

WORKER = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
print(f"world {dist.get_world_size()} rank {dist.get_rank()}", flush=True)
for i in range(int(os.environ.get("STEPS", "2"))):
    time.sleep(0.2); dist.all_reduce(t)
    print(f"step {i}", flush=True)
dist.destroy_process_group()
"""


class Agents:
    """Starts agents and remembers every process of theirs."""

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("torch") is None or importlib.util.find_spec("etcd") is None:
            pytest.skip("torch or python-etcd is missing: pip install torch==2.13.0 python-etcd numpy")
        self.folder, self.started = folder, []  # type: tuple[Path, list[subprocess.Popen[bytes]]]
        self.script = folder / "train_worker.py"
        self.script.write_text(WORKER)

    def start(
        self, backend: str, endpoint: str, run: str, *, nodes: str = "2", steps: int = 2, conf: str = "", name: str = ""
    ) -> subprocess.Popen[bytes]:
        """One agent with one worker; its output goes to `<name or number>.log`."""
        protocol = "protocol=http," if backend.startswith("etcd") else ""
        argv = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", "--nproc-per-node=1"]
        argv += [f"--rdzv-backend={backend}", f"--rdzv-endpoint={endpoint}", f"--rdzv-id={run}", "--max-restarts=0"]
        argv += [f"--rdzv-conf={protocol}join_timeout=60,timeout=60,last_call_timeout=1{conf}", str(self.script)]
        env = os.environ | {"OMP_NUM_THREADS": "1", "STEPS": str(steps), "TMPDIR": str(self.folder)}  # a killed agent leaves folders
        log = (self.folder / f"{name or len(self.started)}.log").open("wb")
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, start_new_session=True)
        self.started.append(process)
        return process

    def log(self, name: str | int) -> str:
        """What an agent printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @staticmethod
    def workers(agent: subprocess.Popen[bytes]) -> list[int]:
        """Pids of an agent's children."""
        with suppress(OSError):
            return [int(p) for p in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()]
        return []

    def kill(self, agent: subprocess.Popen[bytes], *, workers: bool = True, how: int = signal.SIGKILL) -> list[int]:
        """End an agent; with `workers` its children as well. Returns the children's pids."""
        children = self.workers(agent)
        agent.send_signal(how)
        for pid in children if workers else []:
            _kill(pid)
        agent.wait(timeout=60)
        return children

    def stop(self) -> None:
        """End whatever is left: the agents, and every process that runs this test's own script (workers begin a
        session of their own and outlive their agent)."""
        for agent in self.started:
            with suppress(ProcessLookupError):
                agent.kill()
        for pid in self.running():
            _kill(pid)
        for agent in self.started:
            agent.wait(timeout=30)

    @staticmethod
    def end(pid: int) -> None:
        """SIGKILL one process that this test started."""
        _kill(pid)

    def running(self) -> list[int]:
        """Processes that run this test's script now; its path is in no other command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if str(self.script).encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found


@contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """A lock of the whole machine: the node's reading sees every torchrun that runs here, of other tests too."""
    with Path("/tmp/gpu-runbooks-tests-torchrun.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pair(agents: Agents, end: str, run: str, steps: int, tag: str, conf: str = "", backend: str = "etcd-v2") -> None:
    """Two agents of one run until both train."""
    for i in range(2):
        agents.start(backend, end, run, steps=steps, conf=conf, name=f"{tag}{i}")
    until(lambda: all("step 0" in agents.log(f"{tag}{i}") for i in range(2)), 120, f"training of {run}")


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
