"""A launch that collides with itself or with another, rebuilt: real processes on a real port, and a batch script, read by the probes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.launch.diagnose import Limits, diagnose
from runbooks.launch.parsers.slurm_batch import parse_batch
from tasks.context import Context
from tasks.launch.read import gather_distributed_setup
from tasks.transport.local import LocalHost

LIMITS = Limits(**load_runbook("distributed-setup").limit_values())
SCRIPT = """\
#!/bin/bash
#SBATCH -N 16
#SBATCH --exclusive
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
##SBATCH --mpi=none
export GPUS_PER_NODE=8
export NUM_NODES=16
export NODE_RANK=${SLURM_PROCID}
export MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n1)
export MASTER_PORT=12341
export WORLD_SIZE=$(($GPUS_PER_NODE * $NUM_NODES))
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES \\
    --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT pretrain_gpt.py --tensor-model-parallel-size 8
"""
LISTENS = """\
import socket, sys, time
port = int(sys.argv[sys.argv.index("--master_port") + 1])
s = socket.socket()
try:
    s.bind(("0.0.0.0", port))
    s.listen()
except OSError:
    pass  # the others of it: EADDRINUSE, and not gone yet
print("up", flush=True)
time.sleep(120)
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def started(
    folder: Path, port: int, script: str = "pretrain_gpt.py", per_node: str = "8", env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """A launcher (or, without a number of processes, a stranger) that wants the port; its pid."""
    program = folder / ("torchrun" if per_node else "server")
    program.write_text(LISTENS)
    words = ["--nproc_per_node", per_node] if per_node else []
    argv = [sys.executable, str(program), *words, "--master_port", str(port), script]
    process = subprocess.Popen(argv, env=os.environ | dict(env or {}), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()


def check(folder: Path, port: int, batch: str = "") -> Diagnosis:
    command = ("torchrun", "--nproc_per_node", "8", "--master_port", str(port), "pretrain_gpt.py")
    path = folder / "train.sbatch"
    if batch:
        path.write_text(batch)
    launch = Launch(name="gpt", nodes=("n1",), command=command, port=port, shm_gb=0, batch=str(path) if batch else None)
    fleet = Fleet(nodes=(Node(name="n1", local=True),), launches=(launch,))
    context = Context(fleet=fleet, target="gpt", open_host=lambda n: LocalHost(n.name))
    seen = gather_distributed_setup(context)
    return diagnose(type(seen).model_validate_json(seen.model_dump_json()), LIMITS)


def slugs(d: Diagnosis) -> list[str]:
    return [c.slug for c in d.causes if c.slug not in ("two-nics-one-subnet", "launch-command")]


@pytest.mark.incident("T2-07", came="right", fed="readers", known=True)
def test_eight_launchers_on_a_node(tmp_path: Path) -> None:
    port, env = free_port(), {"SLURM_JOB_ID": "4711", "SLURM_NTASKS_PER_NODE": "8"}
    with ExitStack() as stack:
        pids = [stack.enter_context(started(tmp_path, port, env=env)) for _ in range(3)]
        d = check(tmp_path, port)
    assert slugs(d) == ["launcher-per-task"]
    assert d.causes[0].certainty is Certainty.CONFIRMED
    said = " ".join(d.causes[0].evidence)
    assert f"pid {pids[0]}" in said
    assert "2 more launchers of it" in said
    assert "8 tasks on a node" in said
    assert not any(str(port + 1) in x for x in d.do_now), "another port is no help"
    assert any("same job" in x for x in d.must_not)


@pytest.mark.incident("T2-07", came="right", fed="readers", known=True)
def test_the_batch_script_alone_says_it(tmp_path: Path) -> None:
    """Before the launch, or when all of it is over: nobody has the port."""
    d = check(tmp_path, free_port(), SCRIPT)
    assert slugs(d) == ["launcher-per-task"]
    assert d.causes[0].certainty is Certainty.CONFIRMED
    assert any("NODE_RANK=${SLURM_PROCID}" in x for x in d.causes[0].evidence)


@pytest.mark.incident("T2-07", came="right", fed="readers", known=True, twin="one task on a node; the port is a stranger's")
def test_a_stranger_has_the_port(tmp_path: Path) -> None:
    good = SCRIPT.replace("--ntasks-per-node=8", "--ntasks-per-node=1").replace("SLURM_PROCID", "SLURM_NODEID")
    port = free_port()
    with started(tmp_path, port, per_node="") as pid:
        d = check(tmp_path, port, good)
    assert slugs(d) == ["port-taken"]
    assert f"pid {pid} (server, since " in d.causes[0].evidence[0]
    assert any(str(port + 1) in x for x in d.do_now)
    assert slugs(check(tmp_path, free_port(), good)) == []


@pytest.mark.parametrize("script", ["finetune.py", "other/pretrain_bert.py"])
@pytest.mark.incident("T2-07", came="right", fed="readers", known=True, twin="the holder is a launcher of another script")
def test_another_jobs_launcher_has_the_port(tmp_path: Path, script: str) -> None:
    port = free_port()
    with started(tmp_path, port, script):
        assert slugs(check(tmp_path, port)) == ["port-taken"]


@pytest.mark.incident("T2-07", came="right", fed="readers", known=True, twin="one launcher of the same launch: an earlier start")
def test_an_earlier_start_has_the_port(tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, port, env={"SLURM_JOB_ID": "4711", "SLURM_NTASKS_PER_NODE": "1"}) as pid:
        time.sleep(0.1)
        d = check(tmp_path, port)
    assert slugs(d) == ["launch-already-there"]
    assert f"pid {pid}" in d.causes[0].evidence[0]
    assert any("by port number" in x for x in d.must_not)


@pytest.mark.parametrize(
    ("change", "tasks", "by_srun"),
    [
        ((), 8, False),
        (("torchrun", "srun torchrun"), 8, True),
        (("torchrun", "srun --ntasks-per-node=1 torchrun"), 1, True),
        (("torchrun", "srun --ntasks-per-node 1 python -m torch.distributed.run"), 1, True),
        (("torchrun", "srun -N 16 -n 16 --ntasks-per-node=1 torchrun"), 1, True),
        (("#SBATCH --ntasks-per-node=8", "#SBATCH -n 128"), 8, False),
        (("#SBATCH --ntasks-per-node=8", "#SBATCH --ntasks 16"), 1, False),
        (("#SBATCH --ntasks-per-node=8", "##SBATCH --ntasks-per-node=8"), None, False),
    ],
)
def test_what_a_batch_script_says(change: tuple[str, ...], tasks: int | None, by_srun: bool) -> None:
    found = parse_batch(SCRIPT.replace(change[0], change[1]) if change else SCRIPT)
    assert (found.tasks, found.by_srun) == (tasks, by_srun)
    assert found.per_node == "8"


def test_a_launcher_through_a_variable() -> None:
    text = "#SBATCH --ntasks-per-node=4\nLAUNCHER=\"torchrun --nproc_per_node=4 --nnodes 2\"\nsrun bash -c \"$LAUNCHER train.py\"\n"
    found = parse_batch(text)
    assert (found.tasks, found.by_srun, found.per_node) == (4, True, "4")


@pytest.mark.incident("T2-07", came="right", fed="readers", known=True, twin="a task for each GPU, and no launcher")
def test_tasks_without_a_launcher(tmp_path: Path) -> None:
    text = "#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun python train.py\n"
    assert slugs(check(tmp_path, free_port(), text)) == []
    one_each = "#SBATCH --ntasks-per-node=8\nsrun torchrun --nproc_per_node=1 --rdzv_backend=c10d train.py\n"
    assert slugs(check(tmp_path, free_port(), one_each)) == []


def test_a_batch_script_that_cannot_be_read_is_not_well(tmp_path: Path) -> None:
    launch = Launch(name="gpt", nodes=("n1",), command=("torchrun", "train.py"), port=free_port(), shm_gb=0, batch=str(tmp_path / "gone"))
    fleet = Fleet(nodes=(Node(name="n1", local=True),), launches=(launch,))
    context = Context(fleet=fleet, target="gpt", open_host=lambda n: LocalHost(n.name))
    d = diagnose(gather_distributed_setup(context), LIMITS)
    assert d.state is not State.HEALTHY
    assert any(u.startswith("batch script: failed") for u in d.unknowns)
