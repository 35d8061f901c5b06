"""Outages in the middle: connections cut half-way, 503 and SlowDown while parts go up and come down; a store whose own
limit is reached; memory that stays bounded."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.checkpoint import act_store as checkpoint_store
from tasks.checkpoint import act_upload as checkpoint_upload
from tasks.transport.base import TransportError
from tests.support.ckpt_files import need
from tests.support.ckpt_fleet import Shelf, context, do, folder, look, plan
from tests.support.s3 import Proxy, S3Server
from tests.tasks.checkpoint.test_s3 import candidates, put, tier

LIMIT_MIB = 256


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 16 MiB that goes up in parts of 5 MiB."""
    torch = need("torch")
    path = tmp_path_factory.mktemp("big") / "checkpoint_step_7.pt"
    torch.save({"w": torch.randn(4 << 20), "step": 7}, path)
    return path


def test_upload_through_an_outage(s3: S3Server, admin: None, big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut and throttled parts are sent again; a store that stays away gets no object, and what arrived is kept."""
    monkeypatch.setattr(checkpoint_upload, "PART", 5 << 20)
    proxy = Proxy(s3.port)
    try:
        ctx = context(folder("nvme", big.parent), tier(s3, "out1", endpoint=proxy.url))
        (step,) = plan(look(ctx)[1], "copy step 7 to s3").steps
        proxy.faults["PUT"] = ["503", "cut", "", "503", "503"]
        do(step, ctx)
        assert s3.client().get_object(Bucket="ckpt", Key="out1/checkpoint_step_7.pt")["Body"].read() == big.read_bytes()
        ctx = context(folder("nvme", big.parent), tier(s3, "out2", endpoint=proxy.url))
        (step,) = plan(look(ctx)[1], "copy step 7 to s3").steps
        proxy.faults["PUT"] = ["", "", *["503"] * 40]
        with pytest.raises(TransportError, match=r"503; .* the next try sends only the others"):
            do(step, ctx)
        (note,) = s3.client().list_objects_v2(Bucket="ckpt", Prefix="out2/")["Contents"]
        assert note["Key"].endswith(".tmp"), "no loader takes it for a checkpoint"
        seen, _ = look(ctx)
        assert candidates(seen.tiers[1]) == ()
        assert [n.name for n in seen.tiers[1].leftovers] == [note["Key"].removeprefix("out2/")]
        proxy.faults["PUT"] = []
        sent = proxy.bytes_in["PUT"]
        do(step, ctx)
        assert proxy.bytes_in["PUT"] - sent == big.stat().st_size - (5 << 20), "the first part was not sent again"
    finally:
        proxy.stop()
    assert_only(s3, "out2", big)


def assert_only(s3: S3Server, prefix: str, path: Path) -> None:
    """The whole checkpoint lies there, and nothing else: no note, no unfinished upload."""
    (found,) = s3.client().list_objects_v2(Bucket="ckpt", Prefix=f"{prefix}/")["Contents"]
    assert s3.client().get_object(Bucket="ckpt", Key=found["Key"])["Body"].read() == path.read_bytes()
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket="ckpt", Prefix=f"{prefix}/")


def test_reading_through_an_outage(s3: S3Server, admin: None, big: Path) -> None:
    """Single cuts are read again; a store that fails for long makes nobody call the checkpoint damaged."""
    s3.client().upload_file(str(big), "ckpt", "in/checkpoint_step_7.pt")
    proxy = Proxy(s3.port)
    try:
        ctx = context(tier(s3, "in", endpoint=proxy.url))
        proxy.faults["GET"] = ["cut", "", "503", "cut"]
        seen, got = look(ctx)
        assert candidates(seen.tiers[0])[0].content == "proven", candidates(seen.tiers[0])[0].notes
        proxy.faults["GET"] = [""] * 12 + ["cut"] * 400
        seen, got = look(ctx)
        (found,) = candidates(seen.tiers[0])
        assert found.content != "damaged"
        assert "bit-flip" not in {c.slug for c in got.causes}
    finally:
        proxy.stop()


def test_a_folder_that_is_only_half_up_is_no_checkpoint(
    s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies after two of four ranks: nobody takes it; the next try goes on and completes it."""
    shelf.put(tmp_path, 300, form="sharded")
    target = tier(s3, "half")
    ctx = context(folder("nvme", tmp_path), target, naming="step_{step}")
    (step,) = plan(look(ctx)[1], "copy step 300 to s3").steps
    real, calls = checkpoint_upload.send_one, []

    def dies(*args: Any) -> None:
        calls.append(args[3])
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)

    monkeypatch.setattr(checkpoint_store, "send_one", dies)
    with pytest.raises(KeyboardInterrupt):
        do(step, ctx)
    seen, got = look(context(target, naming="step_{step}"))
    assert got.headline.startswith("No checkpoint that can be trusted")
    assert [f.kind for f in candidates(seen.tiers[0])[0].faults] == ["unfinished"]
    do(step, ctx)
    assert calls == ["rank_0.pt", "rank_1.pt", "rank_2.pt", "rank_2.pt", "rank_3.pt"]
    _, got = look(context(target, naming="step_{step}"))
    assert got.headline.startswith("Resume from step 300 on s3 (structure and every byte"), got.headline


def test_a_real_limit_of_the_store(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    """The server's own 503 (its circuit breaker), not one that a test made up."""
    put(s3, "lim", *shelf.put(tmp_path, 300))
    s3.limit_reads(True)
    try:
        _, got = look(context(tier(s3, "lim")))
        assert "s3-throttled" in {c.slug for c in got.causes}, got.causes
    finally:
        s3.limit_reads(False)


def test_memory_stays_bounded(s3: S3Server, admin: None, tmp_path: Path) -> None:
    """Content of 250 MB from the store, in a process of its own whose peak is measured."""
    torch = need("torch")
    path = tmp_path / "checkpoint_step_9.pt"
    torch.save({"w": torch.zeros(120 << 20, dtype=torch.float16), "step": 9}, path)
    s3.client().upload_file(str(path), "ckpt", "mem/checkpoint_step_9.pt")
    code = (
        "import re, sys\n"
        "from tests.support.ckpt_fleet import context, look\n"
        "from runbooks.core.checkpoints import Tier\n"
        "_, got = look(context(Tier(name='s3', kind='s3', bucket='ckpt', prefix='mem', endpoint=sys.argv[1])))\n"
        "assert 'every byte' in got.headline, got.headline\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, s3.url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) <= LIMIT_MIB, done.stdout
