"""Attempts to make it lose the last whole copy, refuse a whole one, or take a damaged one."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runbooks.checkpoint.evidence import Candidate
from runbooks.core.reading import Known
from tasks.checkpoint.probes.ckpt_holders import holders
from tasks.context import ActionRefused
from tests.support.ckpt_files import need
from tests.support.ckpt_fleet import Shelf, context, do, folder, look, plan
from tests.support.smallfs import fill, tmpfs
from tests.tasks.checkpoint.test_local import break_it


def prunes(nvme: Path, share: Path, keep: int = 1) -> list[str]:
    _, got = look(context(folder("nvme", nvme, keep=keep), folder("share", share)))
    steps = [s for p in got.plans for s in p.steps if s.kind == "prune-checkpoints"]
    return [d["name"] for s in steps for d in s.args["delete"]]


def test_a_copy_that_only_looks_whole_is_no_copy(shelf: Shelf, tmp_path: Path) -> None:
    """The copy elsewhere has a flipped bit, is the very same file under another path, or is another save."""
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 300)
        (copy,) = shelf.put(share, 100)
        fill(nvme)
        assert prunes(nvme, share) == ["checkpoint_step_100.pt"]
        break_it(copy)
        assert prunes(nvme, share) == []
        copy.unlink()
        copy.parent.rmdir()
        share.symlink_to(nvme)
        assert prunes(nvme, share) == []
        share.unlink()
        other = shelf.put(tmp_path / "other", 200)[0]
        share.mkdir()
        other.rename(copy)
        assert copy.stat().st_size == (nvme / copy.name).stat().st_size
        assert prunes(nvme, share) == []


def test_the_other_copy_goes_between_judgment_and_act(shelf: Shelf, tmp_path: Path) -> None:
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 300)
        (copy,) = shelf.put(share, 100)
        fill(nvme)
        ctx = context(folder("nvme", nvme, keep=1), folder("share", share))
        (step,) = plan(look(ctx)[1], "prune nvme of a").steps
        copy.rename(share / "away")
        with pytest.raises(ActionRefused, match="the other copy"):
            do(step, ctx)
        assert (nvme / copy.name).exists()


def test_readers_that_closed_the_file_or_see_another_path(tmp_path: Path) -> None:
    """A mapping without an open file, and a process of another mount namespace, as a container is."""
    tier = tmp_path / "tier"
    tier.mkdir()
    (tier / "checkpoint_step_7.pt").write_bytes(bytes(9000))
    assert holders(str(tier))["list"] == []
    inside = (
        "import os, sys, time; os.chroot(sys.argv[1]); f = open('/inside/checkpoint_step_7.pt', 'rb'); "
        "print('ready', flush=True); time.sleep(60)"
    )
    room = tmp_path / "room"
    (room / "inside").mkdir(parents=True)
    script = f'mount --bind "{tier}" "{room}/inside" && exec "{sys.executable}" -c "$0" "{room}"'
    proc = subprocess.Popen(["unshare", "-m", "sh", "-c", script, inside], stdout=subprocess.PIPE, text=True)
    assert proc.stdout is not None
    try:
        assert proc.stdout.readline() == "ready\n"
        assert [(h["pid"], h["path"]) for h in holders(str(tier))["list"]] == [(proc.pid, "checkpoint_step_7.pt")]
    finally:
        proc.kill()
        proc.wait()
    code = (
        "import mmap, sys, time; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); "
        "f.close(); print('ready', flush=True); time.sleep(60)"
    )
    assert mmap.PROT_READ
    proc = subprocess.Popen(
        [sys.executable, "-c", code, str(tier / "checkpoint_step_7.pt")], stdout=subprocess.PIPE, text=True
    )
    assert proc.stdout is not None
    try:
        assert proc.stdout.readline() == "ready\n"
        assert [(h["pid"], h["path"], h["writing"]) for h in holders(str(tier))["list"]] == [
            (proc.pid, "checkpoint_step_7.pt", False)
        ]
    finally:
        proc.kill()
        proc.wait()


def test_the_same_name_and_inode_on_another_file_system_is_no_holder(tmp_path: Path) -> None:
    """Inodes of every tmpfs begin with small numbers: another job's file of that name is not this tier's."""
    with tmpfs(tmp_path / "ours") as ours, tmpfs(tmp_path / "theirs") as theirs:
        here, there = (place / "checkpoint_step_7.pt" for place in (ours, theirs))
        here.write_bytes(bytes(9000))
        there.write_bytes(bytes(9000))
        assert here.stat().st_ino == there.stat().st_ino
        with there.open("rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ):
            assert holders_elsewhere(ours) == []
            assert holders_elsewhere(theirs) == [there.name]


def holders_elsewhere(tier: Path) -> list[str]:
    """What another process sees held by this one."""
    code = "import sys\nfrom tasks.checkpoint.probes.ckpt_holders import holders\n"
    code += "print(*(h['path'] for h in holders(*sys.argv[1:])['list']))"
    done = subprocess.run([sys.executable, "-c", code, str(tier), "tmpfs"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def first(ctx_tier: Path, **options: str) -> Candidate:
    evidence, _ = look(context(folder("nvme", ctx_tier), options=options))
    assert isinstance(evidence.tiers[0].candidates, Known)
    return evidence.tiers[0].candidates.value[0]


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """A save after the loss diverged is whole and useless: the optional scan passes over it, not over a mask of -inf."""
    torch = need("torch")
    for step, value in ((100, 1.0), (200, float("nan")), (300, float("-inf"))):
        data = {"model": {"w": torch.ones(3000), "odd": torch.full((9,), value).bfloat16()}, "step": step}
        torch.save(data, tmp_path / f"checkpoint_step_{step}.pt")
    (tmp_path / "checkpoint_step_300.pt").rename(tmp_path / "checkpoint_step_150.pt.aside")
    assert first(tmp_path).step == 200
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.headline.startswith("Resume from step 200"), "nobody asked for the scan"
    _, got = look(context(folder("nvme", tmp_path), options={"finite": "yes"}))
    assert got.headline.startswith("Resume from step 100")
    assert [c.slug for c in got.causes] == ["not-finite"]
    assert "model.odd: 9 NaN" in got.causes[0].evidence[0]
    (tmp_path / "checkpoint_step_150.pt.aside").rename(tmp_path / "checkpoint_step_300.pt")
    _, got = look(context(folder("nvme", tmp_path), options={"finite": "yes"}))
    assert got.headline.startswith("Resume from step 300")
    assert "infinite" in " ".join(first(tmp_path, finite="yes").notes)


def test_copies_without_checksums_are_compared(shelf: Shelf, tmp_path: Path) -> None:
    """Two copies of one step, one with a flipped bit: neither can be told, so neither is taken."""
    from tests.support.ckpt_files import save

    for tier in ("a", "b"):
        for step in (100, 200):
            save("safetensors", tmp_path / tier / f"step_{step}", step=step)
    tiers = (folder("a", tmp_path / "a"), folder("b", tmp_path / "b"))
    _, got = look(context(*tiers, naming="step_{step}"))
    assert got.headline.startswith("Resume from step 200"), got.headline
    assert "the same bytes" in " ".join(got.do_now)
    break_it(tmp_path / "b" / "step_200" / "model.safetensors")
    _, got = look(context(*tiers, naming="step_{step}"))
    assert got.headline.startswith("Resume from step 100"), got.headline
    assert {c.slug for c in got.causes} == {"copies-differ"}


def test_links_are_not_followed_and_not_called_broken(shelf: Shelf, tmp_path: Path) -> None:
    save_at = tmp_path / "real"
    (path,) = shelf.put(save_at, 300)
    tier = tmp_path / "tier"
    tier.mkdir()
    (tier / path.name).symlink_to(path)
    (tier / "checkpoint_step_400.pt").mkdir()
    (tier / "checkpoint_step_400.pt" / "rank_0.pt").symlink_to(path)
    os.mkfifo(tier / "checkpoint_step_500.pt")
    _, got = look(context(folder("nvme", tier)))
    assert {c.slug for c in got.causes} == {"unreadable"}, [c.evidence for c in got.causes]
    assert got.plans == ()
