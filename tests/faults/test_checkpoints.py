"""checkpoint-fallback, memory-pressure and data-check through the engine: real torch files, a real S3 server, killed
while copying, repointing and pruning. Never a half file under a final name, never the last whole copy gone."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.checkpoint.probes.ckpt_files import identity, members
from tests.faults.real import AFTER_A_STEP, RealWorld, killed_at, outcome
from tests.support.ckpt_files import judge, need, spec_for
from tests.support.ckpt_fleet import Shelf
from tests.support.engine_rig import Rig
from tests.support.s3 import ADMIN, S3Server
from tests.support.smallfs import fill, tmpfs

pytestmark = pytest.mark.scored(fault="killed", point="by hand")

ENV = {"AWS_ACCESS_KEY_ID": ADMIN[0], "AWS_SECRET_ACCESS_KEY": ADMIN[1]}


def world(rig: Rig, folder: Path, *tiers: dict[str, Any], kinds: tuple[str, ...] = (), **more: Any) -> RealWorld:
    node = f"n{os.urandom(4).hex()}"  # locks are on physical nodes: tests must not wait for each other
    fleet = {"nodes": [{"name": node, "local": True}], "checkpoints": {"tiers": list(tiers)} | more}
    return RealWorld(rig, folder, "checkpoint-fallback", node, fleet, kinds, ENV)


def tier(name: str, path: Path, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "nvme", "path": str(path)} | more


def whole(path: Path, step: int) -> bool:
    return judge({"ckpt.pt": path.read_bytes()}, spec_for("torch-zip", step)).whole


def nothing_half(*folders: Path) -> None:
    """Everything that has a final name is whole."""
    for folder in folders:
        for path in folder.glob("checkpoint_step_*.pt"):
            assert whole(path, int(path.stem.rpartition("_")[2])), path


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(bytes(data))


def test_the_store_has_the_newest(rig: Rig, s3: S3Server, shelf: Shelf, tmp_path: Path) -> None:
    """Diagnosed, then copied down by itself, proven there, and nothing is left to do."""
    nvme = tmp_path / "nvme"
    shelf.put(nvme, 100)
    (path,) = shelf.put(tmp_path / "src", 300)
    s3.client().put_object(Bucket="ckpt", Key=f"e1/{path.name}", Body=path.read_bytes())
    store = {"name": "s3", "kind": "s3", "bucket": "ckpt", "prefix": "e1", "endpoint": s3.url}
    w = world(rig, tmp_path, tier("nvme", nvme), store, kinds=("copy-checkpoint",))
    assert outcome(w.run("diagnose")) == "sick"
    assert w.report()["diagnosis"]["headline"].startswith("Resume from step 300 on s3")
    assert [p.name for p in nvme.iterdir()] == ["checkpoint_step_100.pt"]
    assert outcome(w.run("auto")) == "fixed", w.report()["timeline"]
    assert (nvme / path.name).read_bytes() == path.read_bytes()
    report = w.report()
    assert report["after"]["headline"].startswith("Resume from step 300 on nvme (structure and every byte")
    assert ADMIN[1] not in str(report)
    w.check(1)


@pytest.mark.parametrize("point", killed_at("step-begins"))
def test_killed_while_copying(rig: Rig, s3: S3Server, shelf: Shelf, tmp_path: Path, point: str) -> None:
    nvme, store = tmp_path / "nvme", f"k-{point}"
    nvme.mkdir()
    (path,) = shelf.put(tmp_path / "src", 300)
    s3.client().put_object(Bucket="ckpt", Key=f"{store}/{path.name}", Body=path.read_bytes())
    remote = {"name": "s3", "kind": "s3", "bucket": "ckpt", "prefix": store, "endpoint": s3.url}
    w = world(rig, tmp_path, tier("nvme", nvme), remote, kinds=("copy-checkpoint",))
    w.arm(point)
    w.run("auto")
    assert w.struck() is (point != "settled"), "a copy is safe: no run waits for others before it"
    w.carry_on()
    w.check(1)
    nothing_half(nvme)
    assert (nvme / path.name).exists() is (point in AFTER_A_STEP or not w.struck())


@pytest.mark.parametrize("point", killed_at())
def test_killed_while_pruning(rig: Rig, shelf: Shelf, tmp_path: Path, point: str) -> None:
    """A person approved; the run dies; each step still has a whole copy somewhere."""
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 200, 300)
        shelf.put(share, 100, 200)
        fill(nvme)
        w = world(rig, tmp_path, tier("nvme", nvme, keep=1), tier("share", share))
        run = w.run("auto")
        assert outcome(run) == "waiting", w.report()["timeline"]
        assert "2 old checkpoints" in str(w.report()["diagnosis"]["plans"]), "count and bytes are shown"
        w.arm(point)
        w.approve(run, fault=True)
        w.carry_on()
        w.check(1)
        nothing_half(nvme, share)
        left = {int(p.stem.rpartition("_")[2]) for f in (nvme, share) for p in f.glob("*.pt")}
        assert left == {100, 200, 300}, "no step lost its last whole copy"
        assert (nvme / "checkpoint_step_300.pt").exists()


@pytest.mark.soak
def test_pruned_when_a_person_says_so(rig: Rig, shelf: Shelf, tmp_path: Path) -> None:
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 200, 300)
        shelf.put(share, 100, 200)
        fill(nvme)
        w = world(rig, tmp_path, tier("nvme", nvme, keep=1), tier("share", share))
        run = w.run("approve")
        assert outcome(run) == "waiting"
        assert len(list(nvme.glob("*.pt"))) == 3
        w.approve(run)
        assert outcome(run) == "fixed", w.report()["timeline"]
        assert [p.name for p in nvme.glob("*.pt")] == ["checkpoint_step_300.pt"]
        assert len(list(share.glob("*.pt"))) == 2


@pytest.mark.parametrize("point", killed_at())
def test_killed_while_repointing(rig: Rig, shelf: Shelf, tmp_path: Path, point: str) -> None:
    nvme = tmp_path / "nvme"
    _, bad = shelf.put(nvme, 100, 200)
    flip(bad)
    (nvme / "latest").write_text(bad.name)
    w = world(rig, tmp_path, tier("nvme", nvme), kinds=("repoint-latest",))
    w.arm(point)
    w.run("auto")
    w.carry_on()
    w.check(1)
    assert (nvme / "latest").read_text() in (bad.name, "checkpoint_step_100.pt")
    assert not list(nvme.glob("latest.*"))
    if point in AFTER_A_STEP:
        assert (nvme / "latest").read_text() == "checkpoint_step_100.pt"


@pytest.mark.soak
def test_killed_in_the_middle_of_the_bytes(rig: Rig, s3: S3Server, tmp_path: Path) -> None:
    """The engine dies while its copy is half there; the next run goes on from there and publishes it whole."""
    torch = need("torch")
    src, nvme = tmp_path / "checkpoint_step_300.pt", tmp_path / "nvme"
    torch.save({"model_state_dict": {"w": torch.randn(8 << 20)}, "step": 300}, src)
    s3.client().upload_file(str(src), "ckpt", "mid/checkpoint_step_300.pt")
    nvme.mkdir()
    store = {"name": "s3", "kind": "s3", "bucket": "ckpt", "prefix": "mid", "endpoint": s3.url}
    w = world(rig, tmp_path, tier("nvme", nvme), store, kinds=("copy-checkpoint",))
    pid, _ = w.start("auto")
    deadline = time.monotonic() + 120
    while not list(nvme.glob("*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    rig.wait(pid)
    w.carry_on()
    time.sleep(2)  # the program on the node may still end its work
    nothing_half(nvme)
    w.check(1)
    if not (nvme / src.name).exists():
        w.run("auto")
    assert (nvme / src.name).read_bytes() == src.read_bytes()


@pytest.mark.soak
def test_a_deletion_that_died_is_settled(rig: Rig, shelf: Shelf, tmp_path: Path) -> None:
    """Untouched: its name comes back by itself where the policy says so. Half gone: only a person lets the rest go."""
    nvme = tmp_path / "nvme"
    old, _ = shelf.put(nvme, 100, 300)
    left = f"{old.name}.deleting-{identity(members(str(old)))[:8]}.tmp"
    old.rename(nvme / left)
    w = world(rig, tmp_path, tier("nvme", nvme), kinds=("put-back-checkpoint", "finish-deletion"))
    assert outcome(w.run("auto")) == "fixed", w.report()["timeline"]
    assert whole(old, 100)
    old.write_bytes(old.read_bytes()[:1000])
    old.rename(nvme / left)
    run = w.run("auto")
    assert outcome(run) == "waiting"
    assert (nvme / left).exists()
    w.approve(run)
    assert outcome(run) == "fixed", w.report()["timeline"]
    assert [p.name for p in nvme.iterdir()] == ["checkpoint_step_300.pt"]
    w.check(2)


def test_memory_and_data_are_diagnosed(rig: Rig, tmp_path: Path) -> None:
    node = f"n{os.urandom(4).hex()}"
    fleet = {"nodes": [{"name": node, "local": True}]}
    log, data = tmp_path / "log", tmp_path / "train.jsonl"
    log.write_text(
        "RuntimeError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 11.17 GiB total capacity; 505.96 MiB "
        "already allocated; 12.50 MiB free; 530.00 MiB reserved in total by PyTorch)\n"
    )
    data.write_bytes(b'{"text": "a"}\n{"text": "b"}\n{"text": "cut of')
    before = data.read_bytes()
    w = RealWorld(rig, tmp_path, "memory-pressure", node, fleet)
    assert outcome(w.run("auto", options={"log": str(log), "batch": "8"})) == "sick"
    assert w.report()["diagnosis"]["causes"][0]["slug"] == "gpu-held-by-others"
    assert outcome(w.run("auto", slug="data-check", options={"data": str(data)})) == "sick"
    report = w.report()
    assert report["diagnosis"]["causes"][0]["slug"] == "cut-off"
    assert "line 3, byte " in report["diagnosis"]["causes"][0]["evidence"][0]
    assert not report["acts"]
    assert data.read_bytes() == before
    w.check(0)
