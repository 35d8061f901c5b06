"""The newest lines of a worker's log on a real S3 server, without the whole object."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.orchestrator_config import WorkerLogs
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from tasks.context import Context
from tasks.spawning.worker_logs_s3 import TAIL, read_stored_log
from tasks.transport.open import HostPool
from tests.support.s3 import READER, Proxy, S3Server

LAST = "RuntimeError: CUDA error: an illegal memory access was encountered"


@pytest.fixture
def context() -> Context:
    return Context(fleet=Fleet(nodes=(Node(name="local", local=True),)), target="worker/w1", open_host=HostPool())


def logs(url: str, **more: object) -> WorkerLogs:
    return WorkerLogs.model_validate(
        {"bucket": "ckpt", "key": "logs/{worker}.log", "endpoint": url, "lines": 50} | more
    )


def test_the_end_of_a_long_log_is_read_and_no_more(s3: S3Server, admin: None, context: Context) -> None:
    text = "".join(f"{datetime.now(UTC).isoformat()} step {i} fine\n" for i in range(60_000)) + f"Traceback\n{LAST}\n"
    s3.client().put_object(Bucket="ckpt", Key="logs/w1.log", Body=text.encode())
    proxy = Proxy(s3.port)
    try:
        got = read_stored_log(context, logs(proxy.url), "w1")
        assert isinstance(got, Known), got
        assert got.value[-1] == LAST
        assert len(got.value) == 50
        assert len(text) > 8 * TAIL
        assert proxy.bytes_out <= TAIL + 1000, "only the end of the object was asked for"
    finally:
        proxy.stop()


def test_secrets_are_replaced_and_a_cut_character_is_no_fault(s3: S3Server, admin: None, context: Context) -> None:
    body = ("é" * TAIL + "\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789\n").encode()
    s3.client().put_object(Bucket="ckpt", Key="logs/w2.log", Body=body)
    got = read_stored_log(context, logs(s3.url), "w2")
    assert isinstance(got, Known)
    assert "abcdefghijklmnop" not in got.value[-1]


def test_what_is_not_there_and_what_may_not_be_read(
    s3: S3Server, admin: None, context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert isinstance(read_stored_log(context, logs(s3.url), "no-such-worker"), Absent)
    s3.client().put_object(Bucket="ckpt", Key="logs/empty.log", Body=b"")
    empty = read_stored_log(context, logs(s3.url), "empty")
    assert isinstance(empty, Absent) or (isinstance(empty, Known) and empty.value == ())
    for pair, bucket, why in ((READER, "elsewhere", UnknownReason.DENIED), (("AKNONE", "x"), "ckpt", UnknownReason.DENIED)):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", pair[0])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", pair[1])
        got = read_stored_log(context, logs(s3.url, bucket=bucket), "w1")
        assert isinstance(got, Unknown), got
        assert got.reason is why, got
    gone = read_stored_log(context, logs("http://127.0.0.1:1"), "w1")
    assert isinstance(gone, Unknown)
    assert gone.reason is UnknownReason.UNREACHABLE
