"""Real files on real file systems: read, judged, repaired, and refused when something changed in between."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.reading import Known
from runbooks.core.verdict import State
from tasks.context import ActionRefused
from tests.support.ckpt_fleet import Shelf, context, do, folder, look, plan
from tests.support.smallfs import ext4, fill, read_only, tmpfs


def break_it(path: Path) -> None:
    """A flipped bit in the middle: loads silently."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(bytes(data))


def test_seeds_mistake_cannot_happen(shelf: Shelf, tmp_path: Path) -> None:
    """Three newest corrupt, one old good one, the disk full: deletion by age keeps the corrupt; ours touches nothing
    good."""
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        good, *bad = shelf.put(nvme, 100, 200, 300, 400)
        for p in bad:
            break_it(p)
        for n, p in enumerate((good, *bad)):
            os.utime(p, (1e9 + n, 1e9 + n))
        fill(nvme)
        newest_first = sorted(nvme.glob("*.pt"), key=lambda p: -p.stat().st_mtime)
        assert newest_first[3:] == [good], "deletion by age would delete exactly the good one"
        ctx = context(folder("nvme", nvme))
        _, got = look(ctx)
        assert got.headline.startswith("Resume from step 100")
        assert {c.slug for c in got.causes} >= {"disk-full", "bit-flip"}
        assert not [s for p in got.plans for s in p.steps if s.kind == "prune-checkpoints"]
        for step in plan(got, "quarantine the bad ones").steps:
            do(step, ctx)
        assert good.exists()
        assert sorted(p.name for p in nvme.glob("*.pt")) == [good.name]
        assert len(list(nvme.glob("*.bad-*"))) == 3, "set aside, not deleted"
        _, after = look(ctx)
        assert not {c.slug for c in after.causes} & {"bit-flip"}


def test_prune_only_what_lies_elsewhere(shelf: Shelf, tmp_path: Path) -> None:
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 200, 300, 400, 500)
        shelf.put(share, 100, 200)
        fill(nvme)
        ctx = context(folder("nvme", nvme, keep=2), folder("share", share))
        _, got = look(ctx)
        (step,) = plan(got, "prune nvme of a").steps
        assert [d["name"] for d in step.args["delete"]] == ["checkpoint_step_100.pt", "checkpoint_step_200.pt"]
        with (nvme / "checkpoint_step_200.pt").open("rb"), pytest.raises(ActionRefused, match="open"):
            do(step, ctx)
        before = (nvme / "checkpoint_step_500.pt").read_bytes()
        break_it(nvme / "checkpoint_step_500.pt")
        with pytest.raises(ActionRefused, match="must stay"):
            do(step, ctx)
        assert len(list(nvme.glob("*.pt"))) == 5, "a refusal changes nothing"
        (nvme / "checkpoint_step_500.pt").write_bytes(before)
        with pytest.raises(ActionRefused):
            do(step, ctx)  # written again: another identity, judged anew
        (step,) = plan(look(ctx)[1], "prune nvme of a").steps
        said = do(step, ctx).said
        assert len(said) == 2
        assert sorted(p.name for p in nvme.glob("checkpoint*")) == [f"checkpoint_step_{n}.pt" for n in (300, 400, 500)]


def test_newest_wins_on_any_tier(shelf: Shelf, tmp_path: Path) -> None:
    fast, slow = tmp_path / "shm", tmp_path / "nvme"
    shelf.put(fast, 300)
    shelf.put(slow, 100, 200)
    (slow / "latest").write_text("checkpoint_step_200.pt")
    break_it(slow / "checkpoint_step_200.pt")
    (slow / "checkpoint_step_200.pt").touch()
    ctx = context(folder("nvme", slow), folder("share", fast, kind="nvme"))
    _, got = look(ctx)
    assert got.headline.startswith("Resume from step 300 on share")
    memory = context(folder("nvme", slow), folder("memory", fast, kind="memory"))
    _, got = look(memory)
    assert got.headline.startswith("Resume from step 300 on memory")


@pytest.mark.parametrize("form", ["torch-zip", "dcp", pytest.param("sharded", marks=pytest.mark.soak)])
def test_copy_step(shelf: Shelf, tmp_path: Path, form: str) -> None:
    from runbooks.core.plan import Step

    a, b = tmp_path / "a", tmp_path / "b"
    (path,) = shelf.put(a, 300, form=form)
    b.mkdir()
    naming = "checkpoint_step_{step}.pt" if form == "torch-zip" else "step_{step}"
    ranks: dict[str, Any] = {"ranks": "rank_{rank}.pt", "world_size": 4} if form == "sharded" else {}
    ctx = context(folder("a", a), folder("b", b), naming=naming, **ranks)
    evidence, got = look(ctx)
    assert got.headline.startswith("Resume from step 300 on a (structure and every byte"), got.headline
    assert isinstance(evidence.tiers[0].candidates, Known)
    c = evidence.tiers[0].candidates.value[0]
    args = {
        "from_tier": "a",
        "to_tier": "b",
        "node": "a",
        "name": c.name,
        "identity": c.identity,
        "size": c.size,
        "step": 300,
    }
    step = Step(kind="copy-checkpoint", owner="a", args=args, commands=(), effect="")
    assert "content proven" in do(step, ctx).said[0]
    assert [p.name for p in b.iterdir()] == [path.name]
    with pytest.raises(ActionRefused, match="ever replaced"):
        do(step, ctx)
    (b / path.name).rename(b / "away")
    inner = path if path.is_file() else next(p for p in path.iterdir() if p.stat().st_size > 1000)
    break_it(inner)
    with pytest.raises(ActionRefused, match="changed"):
        do(step, ctx)
    assert [p.name for p in b.iterdir()] == ["away"]


def test_repoint_compare_and_set(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(tmp_path, 100, 200)
    break_it(tmp_path / "checkpoint_step_200.pt")
    (tmp_path / "latest").write_text("checkpoint_step_200.pt")
    ctx = context(folder("nvme", tmp_path))
    _, got = look(ctx)
    (step,) = plan(got, "repoint latest of nvme").steps
    with (tmp_path / "checkpoint_step_300.pt.tmp").open("wb"), pytest.raises(ActionRefused, match="open"):
        do(step, ctx)
    (tmp_path / "latest").write_text("checkpoint_step_100.pt ")
    with pytest.raises(ActionRefused, match="changed"):
        do(step, ctx)
    (tmp_path / "latest").write_text("checkpoint_step_200.pt")
    (step,) = plan(look(ctx)[1], "repoint latest of nvme").steps
    do(step, ctx)
    assert (tmp_path / "latest").read_text() == "checkpoint_step_100.pt"
    assert "pointer-wrong" not in {c.slug for c in look(ctx)[1].causes}


def test_full_disks_for_real(shelf: Shelf, tmp_path: Path) -> None:
    """Bytes, inodes, read-only, missing folder, modes, reserve: each told from the others."""
    with tmpfs(tmp_path / "b", "3m") as path:
        shelf.put(path, 100)
        fill(path)
        assert slugs(path) == {"disk-full"}
    with tmpfs(tmp_path / "i", "8m", 8) as path:
        shelf.put(path, 100)
        for n in range(20):
            try:
                (path / f"n{n}").touch()
            except OSError:
                break
        assert slugs(path) == {"inodes-full"}
    with tmpfs(tmp_path / "r", "8m") as path:
        shelf.put(path, 100)
        read_only(path)
        assert slugs(path) == {"read-only"}
    with ext4(tmp_path / "e", 32) as path:
        shelf.put(path, 100)
        path.chmod(0o777)
        dd = ("setpriv", "--reuid=65534", "--clear-groups", "dd", "if=/dev/zero", "of=f", "bs=4k")
        subprocess.run(dd, cwd=path, capture_output=True, check=False)
        assert "reserved-blocks" in slugs(path)


def slugs(path: Path) -> set[str]:
    return {c.slug for c in look(context(folder("nvme", path)))[1].causes}


def test_missing_folder_and_modes(shelf: Shelf, tmp_path: Path) -> None:
    ctx = context(folder("nvme", tmp_path / "gone"))
    _, got = look(ctx)
    (step,) = plan(got, "create folder of nvme").steps
    do(step, ctx)
    assert (tmp_path / "gone").is_dir()
    with pytest.raises(ActionRefused):
        do(step, ctx)
    from runbooks.core.plan import Step

    (tmp_path / "gone").chmod(0o500)
    args = {"path": str(tmp_path / "gone"), "from": 0o500, "to": 0o700, "uid": os.getuid(), "node": "a"}
    mode = Step(kind="restore-folder-mode", owner="a", args=args, commands=(), effect="")
    do(mode, ctx)
    assert (tmp_path / "gone").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ActionRefused):
        do(mode, ctx)


def test_dead_mount_and_writer(shelf: Shelf, tmp_path: Path) -> None:
    """A save that goes on is not called broken twice: it has a temporary name and a living writer."""
    shelf.put(tmp_path, 100)
    with (tmp_path / "checkpoint_step_200.pt.tmp").open("wb") as f:
        f.write(b"half")
        f.flush()
        os.utime(f.name, (time.time() - 4000, time.time() - 4000))
        _, got = look(context(folder("nvme", tmp_path)))
    assert {c.slug for c in got.causes} == {"save-stalled"}
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.state is State.HEALTHY


def test_structure_of_a_thousand(shelf: Shelf, tmp_path: Path) -> None:
    (one,) = shelf.put(tmp_path / "one", 7)
    many = tmp_path / "many"
    many.mkdir()
    for step in range(1000):
        os.link(one, many / f"checkpoint_step_{step}.pt")
    from tasks.checkpoint.node import read_node_tier

    ctx = context(folder("nvme", many))
    seen = read_node_tier(ctx, ctx.node, ctx.fleet.checkpoints, ctx.fleet.checkpoints.tiers[0], 1000)  # type: ignore[union-attr, arg-type]
    assert isinstance(seen.candidates, Known)
    assert sum(c.format == "torch-zip" for c in seen.candidates.value) == 1000
