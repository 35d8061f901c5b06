"""A big upload or download killed with its engine in the middle, on a real S3 server: never anything under the final
name before it is whole; the next try moves only what is missing, of the same source."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.checkpoints import Tier
from runbooks.core.plan import Step
from tasks.checkpoint import act_upload as checkpoint_upload
from tasks.context import ActionRefused
from tests.support.ckpt_files import need
from tests.support.ckpt_fleet import context, do, folder, look, plan
from tests.support.locks import end_holder
from tests.support.s3 import Proxy, S3Server
from tests.tasks.checkpoint.test_outages import assert_only
from tests.tasks.checkpoint.test_s3 import tier

FIVE = 5 << 20
CHILD = """
import json, sys
from runbooks.core.checkpoints import Tier
from runbooks.core.plan import Step
from tasks.checkpoint import act_upload as checkpoint_upload
from tests.support.ckpt_fleet import context, do
checkpoint_upload.PART = 5 << 20
tiers, step = json.load(sys.stdin)
do(Step.model_validate(step), context(*[Tier.model_validate(t) for t in tiers]))
"""


def write(path: Path, seed: int = 1) -> Path:
    torch = need("torch")
    torch.manual_seed(seed)
    torch.save({"w": torch.randn(5 << 20), "step": 7}, path)
    return path


def ready(monkeypatch: pytest.MonkeyPatch, tiers: tuple[Tier, ...], to: str = "s3") -> Step:
    monkeypatch.setattr(checkpoint_upload, "PART", FIVE)
    (step,) = plan(look(context(*tiers))[1], f"copy step 7 to {to}").steps
    return step


def act_and_die(proxy: Proxy, tiers: tuple[Tier, ...], step: Step) -> None:
    """The engine is killed, and with it the program that it started on the node: that one would go on."""
    proc = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip

    struck = threading.Event()

    def strike() -> None:
        os.killpg(proc.pid, signal.SIGKILL)
        end_holder("a")
        struck.set()

    proxy.strike = strike
    _, err = proc.communicate(json.dumps([[t.model_dump(mode="json") for t in tiers], step.model_dump(mode="json")]))
    assert proc.returncode == -signal.SIGKILL, err
    assert struck.wait(30), "the program that holds the lock next is not the one that was struck"


def test_killed_again_and_again(s3: S3Server, admin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the third part, before the parts are joined, after they were joined: each try goes on where the last ended."""
    path, proxy = write(tmp_path / "checkpoint_step_7.pt"), Proxy(s3.port)
    tiers = (folder("nvme", tmp_path), tier(s3, "kill", endpoint=proxy.url))
    try:
        step = ready(monkeypatch, tiers)
        key = {"Bucket": "ckpt", "Key": f"kill/{path.name}"}
        for method, faults, parts, joined in (
            ("PUT", ["", "", "", "strike"], 2, False),
            ("PUT", ["strike-after"], 3, False),
            ("POST", ["strike"], 5, False),
            ("POST", ["strike-after"], 0, True),
        ):
            proxy.faults, proxy.bytes_in = {method: faults}, {}
            act_and_die(proxy, tiers, step)
            found = s3.client().list_objects_v2(Bucket="ckpt", Prefix="kill/")["Contents"]
            assert (key["Key"] in [o["Key"] for o in found]) is joined
            uploads = s3.client().list_multipart_uploads(**{"Bucket": "ckpt", "Prefix": key["Key"]}).get("Uploads", [])
            assert len(uploads) == (not joined)
            if not joined:
                assert len(s3.client().list_parts(UploadId=uploads[0]["UploadId"], **key)["Parts"]) == parts
        proxy.faults, proxy.bytes_in = {}, {}
        do(step, context(*tiers))
        assert proxy.bytes_in.get("PUT", 0) == 0, "all of it was there"
        assert_only(s3, "kill", path)
    finally:
        proxy.stop()


def begin(s3: S3Server, proxy: Proxy, tiers: tuple[Tier, ...], step: Step, prefix: str) -> dict[str, Any]:
    """A try that dies in its third part; the note that it left."""
    proxy.faults = {"PUT": ["", "", "", "strike"]}
    act_and_die(proxy, tiers, step)
    proxy.faults = {}
    (note,) = s3.client().list_objects_v2(Bucket="ckpt", Prefix=f"{prefix}/")["Contents"]
    return {"key": note["Key"], **json.loads(s3.client().get_object(Bucket="ckpt", Key=note["Key"])["Body"].read())}


@pytest.mark.soak
def test_two_sources_are_never_mixed(
    s3: S3Server, admin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same step saved anew; parts that somebody else put into our upload; another's object under our name."""
    path, proxy = write(tmp_path / "checkpoint_step_7.pt"), Proxy(s3.port)
    tiers = (folder("nvme", tmp_path), tier(s3, "mix", endpoint=proxy.url))
    client = s3.client()
    try:
        step = ready(monkeypatch, tiers)
        note = begin(s3, proxy, tiers, step, "mix")
        old = path.read_bytes()
        key, ours = next(iter(note["uploads"].items()))
        client.upload_part(
            Bucket="ckpt", Key=key, UploadId=ours["upload"], PartNumber=1, Body=os.urandom(FIVE)
        )  # of the same size
        write(path, seed=2)
        with pytest.raises(ActionRefused, match="changed"):
            do(step, context(*tiers))
        path.write_bytes(old)
        step = ready(monkeypatch, tiers)
        do(step, context(*tiers))
        assert client.get_object(Bucket="ckpt", Key=key)["Body"].read() == old
        client.delete_object(Bucket="ckpt", Key=key)
        note = begin(s3, proxy, tiers, step, "mix")
        client.put_object(Bucket="ckpt", Key=key, Body=os.urandom(len(old)))
        with pytest.raises(ActionRefused, match="somebody else"):
            do(step, context(*tiers))
    finally:
        proxy.stop()


def test_a_killed_download_fetches_only_the_rest(
    s3: S3Server, admin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there is taken for verified by its recorded sums only: a changed byte of it is fetched again."""
    path, nvme, proxy = write(tmp_path / "checkpoint_step_7.pt"), tmp_path / "nvme", Proxy(s3.port)
    nvme.mkdir()
    s3.client().upload_file(str(path), "ckpt", f"kd/{path.name}")
    tiers = (folder("nvme", nvme), tier(s3, "kd", endpoint=proxy.url))
    try:
        step = ready(monkeypatch, tiers, "nvme")
        proxy.faults = {"GET": ["", "", "strike"]}
        act_and_die(proxy, tiers, step)
        half = next(p for p in nvme.iterdir() if not p.name.endswith(".sums.tmp"))
        assert half.name.endswith(".tmp")
        assert half.stat().st_size == 16 << 20
        assert {p.name.rpartition(".")[2] for p in nvme.iterdir()} == {"tmp"}
        proxy.faults = {"GET": ["strike"]}
        with half.open("r+b") as f:
            f.seek((8 << 20) + 100)
            f.write(b"bitrot")
        act_and_die(proxy, tiers, step)
        assert half.stat().st_size == 8 << 20, "only what agrees with its sum is kept"
        proxy.faults, before = {}, proxy.bytes_out
        do(step, context(*tiers))
        assert proxy.bytes_out - before < path.stat().st_size - (8 << 20) + 10_000, "no byte was fetched twice"
        assert [p.name for p in nvme.iterdir()] == [path.name]
        assert (nvme / path.name).read_bytes() == path.read_bytes()
    finally:
        proxy.stop()
