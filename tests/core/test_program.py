"""The short name of a program in a headline."""

import pytest

from runbooks.core.program import LONGEST, brief, program


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("/opt/venv/bin/python3.12 -u /srv/app/train.py --config /a/b.yaml", "train.py"),
        ("python -m torch.distributed.run --nproc-per-node 8 train.py", "torch.distributed.run"),
        ("/usr/bin/dockerd -H fd://", "dockerd"),
        ("torchrun --nproc_per_node 8 train.py", "torchrun"),
        ("env NCCL_DEBUG=INFO nice -n 5 ./run_training --fast", "run_training"),
        ("bash -c train", "train"),
        ("ray::Learner.step", "ray::Learner.step"),
        ("python", "python"),
        ("", ""),
    ],
)
def test_what_a_person_calls_it(command: str, name: str) -> None:
    assert program(command) == name


def test_it_is_short() -> None:
    assert len(program(f"/bin/{'x' * 900}")) == LONGEST
    assert len(program("python " + "-u " * 900)) == LONGEST


def test_a_process_keeps_its_number() -> None:
    assert brief("pid 42 (python /a/train.py (resumed) --x 1)") == "pid 42 (train.py)"
    assert brief("this machine") == "this machine"
    assert brief("user 1000 (of everything)") == "user 1000 (of everything)"
