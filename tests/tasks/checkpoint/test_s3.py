"""A real S3 server: structure by ranged reads, real answers of all kinds, conditional writes, uploads left
half-done."""

import io
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from runbooks.checkpoint.evidence import Candidate, Store, TierFacts
from runbooks.core.args.checkpoints import RestoreArchived
from runbooks.core.checkpoints import Tier
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.core.verdict import State
from tasks.checkpoint import act_store as checkpoint_store
from tasks.checkpoint import act_upload as checkpoint_upload
from tasks.checkpoint.node import spec_of
from tasks.checkpoint.s3 import read_s3_tier
from tasks.context import ActionRefused
from tests.support.ckpt_files import need, read_tree
from tests.support.ckpt_fleet import Shelf, context, do, folder, look, plan
from tests.support.racing import meanwhile
from tests.support.s3 import READER, Proxy, S3Server


def tier(s3: S3Server, prefix: str, **more: Any) -> Tier:
    return Tier(**{"name": "s3", "kind": "s3", "bucket": "ckpt", "prefix": prefix, "endpoint": s3.url} | more)


def put(s3: S3Server, prefix: str, *paths: Path) -> None:
    for path in paths:
        files = read_tree(path) if path.is_dir() else {"": path.read_bytes()}
        for name, data in files.items():
            s3.client().put_object(Bucket="ckpt", Key="/".join(x for x in (prefix, path.name, name) if x), Body=data)


def read(t: Tier, **config: Any) -> TierFacts:
    ctx = context(t, **config)
    assert ctx.fleet.checkpoints is not None
    return read_s3_tier(ctx, ctx.fleet.checkpoints, t, spec_of(ctx.fleet.checkpoints), 50)


def store(t: Tier) -> Store:
    reading = read(t).store
    assert isinstance(reading, Known), reading
    return reading.value


def slugs(t: Tier) -> set[str]:
    return {c.slug for c in look(context(t))[1].causes}


def candidates(t: TierFacts) -> tuple[Candidate, ...]:
    assert isinstance(t.candidates, Known), t.candidates
    return t.candidates.value


@pytest.mark.parametrize("form", ["torch-zip", "dcp", pytest.param("sharded", marks=pytest.mark.soak)])
def test_structure_and_content(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path, form: str) -> None:
    put(s3, f"st-{form}", *shelf.put(tmp_path, 100, 200, form=form))
    naming = "checkpoint_step_{step}.pt" if form == "torch-zip" else "step_{step}"
    evidence, got = look(context(tier(s3, f"st-{form}"), naming=naming))
    assert [c.step for c in candidates(evidence.tiers[0])] == [200, 100]
    assert got.headline.startswith("Resume from step 200 on s3 (structure and every byte"), got.headline
    assert got.state is State.HEALTHY


def test_large_object_is_judged_from_little(s3: S3Server, admin: None, tmp_path: Path) -> None:
    """Under 0.1 % of a large object is read for its structure."""
    torch = need("torch")
    path = tmp_path / "checkpoint_step_9.pt"
    torch.save({"w": torch.zeros(100 << 20, dtype=torch.float16).view(-1, 1024), "step": 9}, path)
    s3.client().upload_file(str(path), "ckpt", "large/checkpoint_step_9.pt")
    proxy = Proxy(s3.port)
    try:
        t = tier(s3, "large", endpoint=proxy.url)
        (found,) = candidates(read(t))
        assert found.whole
        assert found.format == "torch-zip"
        assert found.size > 200 << 20
        assert proxy.bytes_out < found.size / 1000, proxy.bytes_out
    finally:
        proxy.stop()


def test_answers_of_a_real_server(s3: S3Server, admin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.client().put_object(Bucket="ckpt", Key="ans/latest", Body=b"checkpoint_step_1.pt")
    assert store(tier(s3, "ans")).list_code == "ok"
    assert slugs(tier(s3, "ans", bucket="nosuchbucket")) == {"s3-no-bucket"}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert slugs(tier(s3, "ans")) == {"s3-wrong-credentials"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", READER[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", READER[1])
    assert slugs(tier(s3, "ans")) == {"s3-403-missing-key"}, "listing is denied, a known key can be read"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert slugs(tier(s3, "ans")) == {"s3-no-credentials"}


def test_answers_no_server_gives(s3: S3Server, admin: None) -> None:
    proxy = Proxy(s3.port)
    try:
        t = tier(s3, "ans2", endpoint=proxy.url)
        for answer, slug in (
            ((503, "SlowDown"), "s3-throttled"), ((400, "ExpiredToken"), "s3-expired"), ((403,
            "RequestTimeTooSkewed"), "s3-clock-skew"),
            ((301, "PermanentRedirect"), "s3-wrong-region"), ((403, "AccessDenied"), "s3-permission"),
        ):  # fmt: skip
            proxy.answers = {"GET": answer, "HEAD": answer}
            assert slug in slugs(t), answer
    finally:
        proxy.stop()
    assert slugs(t) == {"s3-unreachable"}


def test_archived_is_not_forbidden(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    put(s3, "cold", *shelf.put(tmp_path, 300))
    proxy = Proxy(s3.port)
    proxy.storage = "GLACIER"
    try:
        _, got = look(context(tier(s3, "cold", endpoint=proxy.url)))
        assert {c.slug for c in got.causes} == {"archived"}
        (step,) = plan(got, "restore archived step 300").steps
        assert "GiB" in step.loses
    finally:
        proxy.stop()
    with pytest.raises(ActionRefused, match="archive"):
        do(step, context(tier(s3, "cold")))


def test_an_upload_that_goes_on_ends_or_begins_anew_while_it_is_aborted(s3: S3Server, admin: None) -> None:
    """A part that comes, or the end of it, before the last look is refused; another upload of that key stays."""
    client, where = s3.client(), {"Bucket": "ckpt", "Key": "raced/checkpoint_step_200.pt"}
    part = where | {"UploadId": client.create_multipart_upload(**where)["UploadId"]}
    sent = [client.upload_part(PartNumber=1, Body=io.BytesIO(os.urandom(5 << 20)), **part)["ETag"]]

    def more() -> None:
        sent.append(client.upload_part(PartNumber=len(sent) + 1, Body=io.BytesIO(os.urandom(100)), **part)["ETag"])

    def end() -> None:
        found = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(sent, 1)]
        client.complete_multipart_upload(MultipartUpload={"Parts": found}, **part)

    def abort() -> None:
        args = {"tier": "s3", "key": where["Key"], "upload_id": part["UploadId"], "parts": len(sent), "older_than_s": 0}
        do(Step(kind="abort-upload", owner="x", args=args, commands=(), effect=""), context(tier(s3, "raced")))

    with meanwhile(checkpoint_store, "read_uploads", more), pytest.raises(ActionRefused, match="got a part in this very moment"):
        abort()
    other = client.create_multipart_upload(**where)["UploadId"]
    with meanwhile(checkpoint_store, "count_parts", end, before=True), pytest.raises(ActionRefused, match="ended in this very moment"):
        abort()
    assert client.head_object(**where)["ContentLength"] == (5 << 20) + 100
    assert [u["UploadId"] for u in client.list_multipart_uploads(Bucket="ckpt", Prefix="raced/")["Uploads"]] == [other]
    part["UploadId"], sent[:] = other, []
    more()
    with meanwhile(checkpoint_store, "count_parts", end), suppress(ActionRefused):  # this server says 204 where the service says 404
        abort()
    assert client.head_object(**where)["ContentLength"] == 100


def test_a_checkpoint_that_is_written_anew_while_it_is_asked_back_from_the_archive(
    s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path
) -> None:
    """Before the listing it is refused; after it the request harms nobody: what was written anew keeps every byte."""
    (path,) = shelf.put(tmp_path, 300)
    put(s3, "anew", path)
    proxy = Proxy(s3.port)
    proxy.storage = "GLACIER"
    key = f"anew/{path.name}"

    def write() -> None:
        s3.client().put_object(Bucket="ckpt", Key=key, Body=b"anew")

    try:
        ctx = context(tier(s3, "anew", endpoint=proxy.url))
        (step,) = plan(look(ctx)[1], "restore archived step 300").steps
        with meanwhile(checkpoint_store, "_found", write, before=True), pytest.raises(ActionRefused, match="changed since"):
            do(step, ctx)
        assert proxy.restores == {}
        put(s3, "anew", path)
        with meanwhile(checkpoint_store, "_found", write):
            assert "requested for" in do(step, ctx).said[0]
        assert s3.client().get_object(Bucket="ckpt", Key=key)["Body"].read() == b"anew"
    finally:
        proxy.stop()


def test_restore_request(monkeypatch: pytest.MonkeyPatch, s3: S3Server, admin: None) -> None:
    """The request itself, against the client's own model of the service."""
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    stub = Stubber(client)
    cold = {
        "Key": "run/checkpoint_step_3.pt",
        "Size": 5,
        "ETag": '"e"',
        "LastModified": datetime(2026, 1, 1, tzinfo=UTC),
        "StorageClass": "GLACIER",
    }
    stub.add_response("list_objects_v2", {"Contents": [cold], "IsTruncated": False})
    request = {"Days": 3, "GlacierJobParameters": {"Tier": "Standard"}}
    stub.add_response("restore_object", {}, {"Bucket": "ckpt", "Key": cold["Key"], "RestoreRequest": request})
    t = Tier(name="s3", kind="s3", bucket="ckpt", prefix="run")

    def fake(tier: Tier) -> Any:
        out = S3Tier(tier)
        out.client = client
        return out

    monkeypatch.setattr(checkpoint_store, "S3Tier", fake)
    from tasks.checkpoint.s3_store import Object, S3Tier, set_identity

    name = {"checkpoint_step_3.pt": Object(cold["Key"], 5, "e", cold["LastModified"], "GLACIER")}  # type: ignore[arg-type]
    args = RestoreArchived(
        tier="s3", name="checkpoint_step_3.pt", identity=set_identity(name), days=3, retrieval="Standard"
    )
    ctx = context(t)
    assert ctx.fleet.checkpoints is not None
    with stub:
        assert "requested for 3 days" in checkpoint_store.restore(ctx.fleet.checkpoints, t, args).said[0]


def test_download_upload_and_no_replacing(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    nvme, back = tmp_path / "nvme", "up"
    nvme.mkdir()
    (path,) = shelf.put(tmp_path / "src", 300)
    put(s3, "down", path)
    ctx = context(folder("nvme", nvme), tier(s3, "down"))
    _, got = look(ctx)
    (step,) = plan(got, "copy step 300 to nvme").steps
    do(step, ctx)
    assert (nvme / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(ActionRefused, match="replaced"):
        do(step, ctx)
    assert "tier-lacks-it" not in {c.slug for c in look(ctx)[1].causes}
    up = context(folder("nvme", nvme), tier(s3, back))
    (step,) = plan(look(up)[1], "copy step 300 to s3").steps
    assert "read back and checked" in do(step, up).said[0]
    body = s3.client().get_object(Bucket="ckpt", Key=f"{back}/{path.name}")["Body"].read()
    assert body == path.read_bytes()
    with pytest.raises(ActionRefused, match="replaced"):
        do(step, up)


def test_multipart_upload_of_a_big_file(
    s3: S3Server, admin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = need("torch")
    monkeypatch.setattr(checkpoint_upload, "PART", 5 << 20)
    torch.save({"w": torch.randn(4 << 20), "step": 7}, tmp_path / "checkpoint_step_7.pt")
    ctx = context(folder("nvme", tmp_path), tier(s3, "multi"))
    (step,) = plan(look(ctx)[1], "copy step 7 to s3").steps
    do(step, ctx)
    head = s3.client().head_object(Bucket="ckpt", Key="multi/checkpoint_step_7.pt")
    assert head["ETag"].strip('"').endswith("-4")
    assert "Uploads" not in s3.client().list_multipart_uploads(Bucket="ckpt", Prefix="multi/")


def test_conditional_pointer(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    put(s3, "ptr", *shelf.put(tmp_path, 100))
    client = s3.client()
    client.put_object(Bucket="ckpt", Key="ptr/latest", Body=b"checkpoint_step_200.pt")
    ctx = context(tier(s3, "ptr"))
    (step,) = plan(look(ctx)[1], "repoint latest of s3").steps
    client.put_object(Bucket="ckpt", Key="ptr/latest", Body=b"checkpoint_step_300.pt")
    with pytest.raises(ActionRefused, match="changed"):
        do(step, ctx)
    (step,) = plan(look(ctx)[1], "repoint latest of s3").steps
    do(step, ctx)
    assert client.get_object(Bucket="ckpt", Key="ptr/latest")["Body"].read() == b"checkpoint_step_100.pt"


def test_old_uploads(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    put(s3, "mp", *shelf.put(tmp_path, 100))
    client = s3.client()
    upload = client.create_multipart_upload(Bucket="ckpt", Key="mp/checkpoint_step_200.pt")["UploadId"]
    part = {"Bucket": "ckpt", "Key": "mp/checkpoint_step_200.pt", "UploadId": upload}
    client.upload_part(PartNumber=1, Body=io.BytesIO(os.urandom(100)), **part)
    ctx = context(tier(s3, "mp"))
    _, got = look(ctx)
    assert not [p for p in got.plans if p.name == "abort old uploads"], "it is young"
    args = {"tier": "s3", "key": part["Key"], "upload_id": upload, "parts": 1, "older_than_s": 86400}
    with pytest.raises(ActionRefused, match="meanwhile"):
        do(Step(kind="abort-upload", owner="x", args=args, commands=(), effect=""), ctx)
    with pytest.raises(ActionRefused, match="below"):
        do(Step(kind="abort-upload", owner="x", args=args | {"key": "else/x"}, commands=(), effect=""), ctx)
    do(Step(kind="abort-upload", owner="x", args=args | {"older_than_s": 0}, commands=(), effect=""), ctx)
    assert "Uploads" not in client.list_multipart_uploads(Bucket="ckpt", Prefix="mp/")
