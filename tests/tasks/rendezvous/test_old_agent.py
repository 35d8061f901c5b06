"""A real agent that holds the port for nobody is ended by pid and start time; a busy one is not."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from deployments.ports import free_port
from runbooks.rendezvous.diagnose import Limits, diagnose
from tasks.gpu.act_processes import terminate_processes
from tasks.rendezvous.read import gather_stale_rendezvous
from tests.support.rendezvous import context_of, place, slugs
from tests.support.torchrun import Agents
from tests.support.waiting import until

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.timeout(1200)]  # one real torchrun test at a time

SHORT = Limits(clock_skew_s=15, fsync_p99_s=0.1, old_agent_age_s=-598)  # "waits too long" two seconds after its start


def orphaned_agent(agents: Agents, port: int, tmp_path: Path) -> int:
    """Rank 0 of two with the static rendezvous, its launcher gone. Returns its pid when it listens."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--node-rank=0", "--rdzv-id=job1"]
    argv += ["--master-addr=127.0.0.1", f"--master-port={port}", str(agents.script)]
    quoted = " ".join(argv)
    pid_file = tmp_path / "pid"
    shell = f"setsid {quoted} >{tmp_path}/old.log 2>&1 </dev/null & echo $! >{pid_file}"
    env = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}  # a killed agent leaves a folder
    subprocess.run(["sh", "-c", shell], check=True, env=env)
    pid = int(pid_file.read_text())
    until(lambda: listens(port), 60, "listening")
    return pid


def listens(port: int) -> bool:
    """Whether anybody has that port open for connections."""
    rows = [r.split() for f in ("tcp", "tcp6") for r in Path(f"/proc/net/{f}").read_text().splitlines()[1:]]
    return any(r[3] == "0A" and int(r[1].rsplit(":", 1)[1], 16) == port for r in rows)


def test_an_old_agent_is_ended_and_only_it(agents: Agents, tmp_path: Path) -> None:
    port = free_port()
    pid = orphaned_agent(agents, port, tmp_path)
    try:
        where = place("http://127.0.0.1:1", backends=("c10d",), endpoints=("127.0.0.1:1",), port=port)
        time.sleep(3)
        context = context_of(where, tmp_path, "t/job1", symptom="RuntimeError: Address already in use")
        other = diagnose(gather_stale_rendezvous(context_of(where, tmp_path, "t/job2")), SHORT)
        assert other.plans == ()
        d = diagnose(gather_stale_rendezvous(context), SHORT)
        assert slugs(d)[0] == "port-old-agent", d
        (step,) = d.plans[0].steps
        assert [p["pid"] for p in step.args["processes"]] == [pid]
        terminate_processes(step, context)
        until(lambda: not listens(port), 20, "a free port")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
