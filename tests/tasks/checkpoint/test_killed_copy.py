"""Copies, prunes and repoints killed at any of their steps: never a half file under a final name, never a step lost;
what is left is found, named, and settled."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tasks.checkpoint.probes.ckpt_files import identity, members
from tasks.context import Context
from tasks.remote.program import program
from tests.support.ckpt_files import judge, read_tree, spec_for
from tests.support.ckpt_fleet import Shelf, context, do, folder, look

KILL = """
import ctypes, os, signal
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
for _n in ("pwrite", "write", "fsync", "ftruncate", "link", "unlink", "rmdir", "symlink", "makedirs"):
    _dying(_n)
class _Libc:
    renameat2 = staticmethod(ctypes.CDLL(None, use_errno=True).renameat2)
os.renameat2 = _Libc.renameat2
_dying("renameat2")
_Libc.renameat2 = staticmethod(os.renameat2)
ctypes.CDLL = lambda *a, **k: _Libc
"""
PROGRAM = program("ckpt_act")


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


def dies(ask: dict[str, object], most: int = 40) -> Iterator[int]:
    """Kills the program at its first step, its second ... until it ends by itself."""
    for die_at in range(1, most):
        code = run(ask, die_at)
        yield die_at
        if code == 0:
            return
    raise AssertionError("it never ended by itself")


def bytes_of(path: Path) -> dict[str, bytes]:
    return read_tree(path) if path.is_dir() else {"": path.read_bytes()} if path.exists() else {}


def settle(ctx: Context) -> list[str]:
    """The next run: names what a killed prune left, and settles it as its plans say. Kinds of what it did."""
    _, got = look(ctx)
    assert got.headline.startswith("Resume from step 300 on nvme")
    steps = [s for p in got.plans for s in p.steps if s.kind in ("put-back-checkpoint", "finish-deletion")]
    assert [c.slug for c in got.causes if not c.benign] == ["deletion-unfinished"] * len(steps)
    for step in steps:
        do(step, ctx)
    return [s.kind for s in steps]


EVERY = range(1, 20)


@pytest.mark.parametrize(
    ("form", "steps"),
    [("torch-zip", EVERY), ("sharded", (3,)), pytest.param("sharded", EVERY, marks=pytest.mark.soak)],
)
def test_prune_killed_at_every_step(shelf: Shelf, tmp_path: Path, form: str, steps: Sequence[int]) -> None:
    """What is left of a deletion is put back if it is untouched; of the rest a person lets go."""
    nvme = tmp_path / "nvme"
    (keep,) = shelf.put(nvme, 300, form=form)
    (copy,) = shelf.put(tmp_path / "share", 200, form=form)
    naming = "checkpoint_step_{step}.pt" if form == "torch-zip" else "step_{step}"
    ctx = context(folder("nvme", nvme, keep=1), folder("share", copy.parent), naming=naming)
    done = []
    for die_at in steps:
        old = nvme / copy.name
        if not old.exists():
            shelf.put(nvme, 200, form=form)
        names = {p.name: identity(members(str(p))) for p in (keep, old)}
        ask: dict[str, object] = {"do": "prune", "root": str(nvme), "pointer": "latest",
            "keep": [{"name": keep.name, "identity": names[keep.name]}],
            "delete": [{"name": old.name, "identity": names[old.name], "size": 1}]}  # fmt: skip
        code = run(ask, die_at)
        done += settle(ctx)
        assert [p.name for p in nvme.iterdir() if ".tmp" in p.name] == []
        assert bytes_of(old) in ({}, bytes_of(copy)), "whole under its name, or gone"
        if code == 0:
            break
    wanted = {"put-back-checkpoint"} if steps == EVERY else set()
    assert set(done) == wanted | ({"finish-deletion"} if form == "sharded" else set())


@pytest.mark.parametrize("link", [False, True])
def test_repoint_killed_at_every_step(shelf: Shelf, tmp_path: Path, link: bool) -> None:
    """The pointer always names one of the two, and the next try leaves nothing behind."""
    old, new = shelf.put(tmp_path, 100, 200)
    latest = tmp_path / "latest"
    latest.symlink_to(old.name) if link else latest.write_text(old.name)
    seen = latest.lstat() if link else latest.stat()
    ask: dict[str, object] = {"do": "point", "root": str(tmp_path), "pointer": "latest", "text": new.name,
        "name": new.name, "identity": identity(members(str(new))), "expect": identity({"latest": seen})}  # fmt: skip
    texts = []
    for _ in dies(ask):
        texts.append(latest.readlink().name if link else latest.read_text())
        if texts[-1] == new.name:
            break
    assert set(texts[:-1]) <= {old.name}
    assert texts[-1] == new.name
    assert len(texts) >= 3
