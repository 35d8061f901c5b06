"""Folders that somebody filled to do harm: names that a shell would run, pipes that never end, files that change while
they are read, archives that grow, names by the hundred thousand."""

import os
import shlex
import struct
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from runbooks.checkpoint.parsers.sets import CheckpointSpec
from runbooks.core.checkpoints import step_pattern
from runbooks.core.reading import Absent, Known
from tasks.checkpoint.probes.ckpt_names import list_names, pointer
from tasks.checkpoint.probes.ckpt_node import scan
from tests.support.ckpt_files import save
from tests.support.ckpt_fleet import Shelf, context, do, folder, look, plan
from tests.support.s3 import S3Server
from tests.support.smallfs import fill, tmpfs
from tests.tasks.checkpoint.test_local import break_it
from tests.tasks.checkpoint.test_s3 import candidates, tier

EVIL = (
    "step_200; touch owned #",
    "step_201\nrm -rf ~",
    "step_202$(touch owned)",
    "step_203 'x' \"y\"",
    "step_204-`id`",
)


def test_names_that_a_shell_would_run(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set aside for real; what is shown to be done by hand is one word per name. The set-aside are no candidates."""
    monkeypatch.chdir(tmp_path)
    nvme = tmp_path / "nvme"
    for n, name in enumerate(EVIL):
        (path,) = shelf.put(nvme, 200 + n)
        break_it(path)
        path.rename(nvme / name)
    (good,) = shelf.put(nvme, 100)
    good.rename(nvme / "step_100 && true")
    ctx = context(folder("nvme", nvme), naming="step_{step}*")
    _, got = look(ctx)
    assert got.headline.startswith("Resume from step 100")
    steps = plan(got, "quarantine the bad ones").steps
    assert {s.args["name"] for s in steps} == set(EVIL)
    for step in steps:
        (line,) = step.commands
        assert shlex.split(line) == ["mv", "-nT", f"{nvme}/{step.args['name']}", f"{nvme}/{step.args['to']}"]
        do(step, ctx)
    assert f"'{nvme}/step_100 && true'" in got.by_hand[0]
    seen, after = look(ctx)
    assert [c.name for c in candidates(seen.tiers[0])] == ["step_100 && true"]
    assert after.plans == ()
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.soak
def test_pruned_under_such_names(shelf: Shelf, tmp_path: Path) -> None:
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        for where, steps in ((nvme, (100, 300)), (share, (100,))):
            for path in shelf.put(where, *steps):
                path.rename(where / f"step_{path.stem.rpartition('_')[2]}; touch owned\n#")
        fill(nvme)
        ctx = context(folder("nvme", nvme, keep=1), folder("share", share), naming="step_{step}*")
        (step,) = plan(look(ctx)[1], "prune nvme of a").steps
        assert shlex.split(step.commands[0])[:2] == ["rm", "-r"]
        assert len(shlex.split(step.commands[0])) == 3
        do(step, ctx)
        assert [p.name for p in nvme.glob("step*")] == ["step_300; touch owned\n#"]


def test_a_pointer_that_is_no_file(shelf: Shelf, tmp_path: Path) -> None:
    """`latest` as a pipe or device is not waited for, as a folder no reason to see nothing else."""
    shelf.put(tmp_path, 100)
    os.mknod(tmp_path / "device", 0o20666, os.makedev(1, 5))  # /dev/zero
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "latest")
    assert [pointer(str(tmp_path), n) for n in ("device", "folder", "latest", "nothing")] == [None] * 4
    seen, got = look(context(folder("nvme", tmp_path)))
    assert isinstance(seen.tiers[0].pointer, Absent), seen.tiers[0].pointer
    assert got.headline.startswith("Resume from step 100")


def scanned(root: Path) -> list[dict[str, Any]]:
    ask = {"root": str(root), "pattern": step_pattern("checkpoint_step_{step}.pt"), "spec": CheckpointSpec()._asdict(), "newest": 3}
    return list(scan(ask)["candidates"])


def test_a_checkpoint_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Two saves that replace each other all the time: whatever mixture is read, it is never called damaged."""
    saves = []
    for seed in (1, 2):
        save("torch-zip", tmp_path / str(seed), step=100, seed=seed)
        saves.append((tmp_path / str(seed) / "ckpt.pt").read_bytes())
    nvme, over, count = tmp_path / "nvme", threading.Event(), 0
    nvme.mkdir()

    def write() -> None:
        nonlocal count
        while not over.is_set():
            count += 1
            (nvme / "fresh.tmp").write_bytes(saves[count % 2])
            (nvme / "fresh.tmp").replace(nvme / "checkpoint_step_100.pt")

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[str] = set()
    try:
        for _ in range(60):
            seen |= {fault[0] for c in scanned(nvme) for fault in c.get("faults", [])}
    finally:
        over.set()
        writer.join()
    assert count > 60
    assert seen <= {"unreadable"}, seen


def test_archives_and_headers_that_grow(tmp_path: Path) -> None:
    """A record of 256 MiB zeros in 0.3 MB, and a header that says it is 2 GiB long: named, and nothing is unpacked."""
    with zipfile.ZipFile(tmp_path / "checkpoint_step_1.pt", "w", zipfile.ZIP_DEFLATED) as z:
        with z.open("archive/data.pkl", "w") as f:
            for _ in range(256):
                f.write(bytes(1 << 20))
        z.writestr("archive/version", "3\n")
    with (tmp_path / "checkpoint_step_2.pt").open("wb") as f:
        f.write(struct.pack("<Q", 2 << 30) + b'{"a":')
        f.truncate((2 << 30) + 100)
    header, bomb = scanned(tmp_path)
    assert [f[0] for f in bomb["limits"]] == ["beyond-reader"]
    assert header["faults"][0][:2] == ["header", "its header of 2147483648 bytes holds zero bytes, which no JSON does"]
    assert bomb["read_bytes"] < 1 << 20


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_a_folder_of_very_many_names(shelf: Shelf, tmp_path: Path, count: int) -> None:
    """Names that are no checkpoints cost nothing; where not all could be looked at, nothing is deleted."""
    with tmpfs(tmp_path / "nvme", "4g", count + 100) as nvme:
        for n in range(count):
            os.close(os.open(f"{nvme}/{'junk' if n % 2 else 'x.tmp'}{n}{'' if n % 2 else '.tmp'}", os.O_CREAT))
        shelf.put(nvme, 100)
        hits, left = list_names(str(nvme), r"checkpoint_step_(?P<step>\d+)\.pt")
        assert len(hits) == 1
        assert len(left) == 50
        seen, got = look(context(folder("nvme", nvme)))
        assert got.headline.startswith("Resume from step 100"), (got.headline, seen.tiers[0].candidates)
        assert isinstance(seen.tiers[0].holders, Known) is (count < 200_000)


def test_keys_with_odd_characters(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    """Spaces, plus, percent, quotes and umlauts in a prefix and a key: listed, proven, copied down and up again."""
    odd, nvme = "run +1/50%25 'ü'&x=y", tmp_path / "nvme"
    (path,) = shelf.put(tmp_path / "src", 300)
    name = "step_300 a+b%20ü;'x'"
    s3.client().put_object(Bucket="ckpt", Key=f"{odd}/{name}", Body=path.read_bytes())
    nvme.mkdir()
    ctx = context(folder("nvme", nvme), tier(s3, odd), naming="step_{step}*")
    for other in ("step_400.pt.tmp", "step_500.pt.bad-0a1b2c3d"):  # on its way, and set aside: no candidates
        s3.client().put_object(Bucket="ckpt", Key=f"{odd}/{other}", Body=path.read_bytes())
    seen, got = look(ctx)
    assert [c.name for c in candidates(seen.tiers[1])] == [name]
    assert got.headline.startswith("Resume from step 300 on s3 (structure and every byte"), got.headline
    (step,) = plan(got, "copy step 300 to nvme").steps
    do(step, ctx)
    assert (nvme / name).read_bytes() == path.read_bytes()
    up = context(folder("nvme", nvme), tier(s3, f"{odd}/up"), naming="step_{step}*")
    (step,) = plan(look(up)[1], "copy step 300 to s3").steps
    do(step, up)
    assert s3.client().get_object(Bucket="ckpt", Key=f"{odd}/up/{name}")["Body"].read() == path.read_bytes()
