"""A copy killed at any of its steps: never a half file under the final name, and the next try finishes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.probes.ckpt_bundle import bundle
from tests.support.ckpt_files import judge, read_tree, spec_for
from tests.support.ckpt_fleet import Shelf

KILL = """
import os, signal
_left = [int(os.environ["DIE_AT"])]
def _dying(name):
    real = getattr(os, name)
    def call(*a, **k):
        _left[0] -= 1
        if _left[0] == 0:
            if name == "pwrite":
                real(a[0], a[1][: len(a[1]) // 2], a[2])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*a, **k)
    setattr(os, name, call)
for _n in ("pwrite", "fsync", "ftruncate", "link", "unlink", "makedirs"):
    _dying(_n)
"""
PROGRAM = bundle("ckpt_act", "ckpt_node", "ckpt_copy", "ckpt_transfer")


def run(ask: dict[str, object], die_at: int) -> int:
    head, rest = PROGRAM.split("\n", 1)
    done = subprocess.run(
        [sys.executable, "-", json.dumps(ask)], input=f"{head}\n{KILL}\n{rest}", capture_output=True, text=True,
        check=False,
        env={"DIE_AT": str(die_at), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    if done.returncode == 0:
        assert "said" in json.loads(done.stdout), done.stdout
    return done.returncode


@pytest.mark.parametrize("form", ["torch-zip", "sharded"])
def test_killed_at_every_step(shelf: Shelf, tmp_path: Path, form: str) -> None:
    from tasks.probes.ckpt_node import identity, members

    (path,) = shelf.put(tmp_path / "a", 300, form=form)
    target = tmp_path / "b" / path.name
    spec = spec_for(form, 300)
    ask: dict[str, object] = {"do": "copy", "from": str(tmp_path / "a"), "root": str(tmp_path / "b"), "name": path.name,
           "identity": identity(members(str(path))), "spec": spec._asdict()}  # fmt: skip
    deaths = 0
    for die_at in range(1, 80):
        code = run(ask, die_at)
        if target.exists():
            files = read_tree(target) if target.is_dir() else {"ckpt.pt": target.read_bytes()}
            assert judge(files, spec).faults == [], f"a half checkpoint under the final name after step {die_at}"
            assert files == (read_tree(path) if path.is_dir() else {"ckpt.pt": path.read_bytes()})
            break
        assert code == -signal.SIGKILL
        deaths += 1
    assert target.exists(), "the last try finishes what the killed ones began"
    assert deaths >= 3
