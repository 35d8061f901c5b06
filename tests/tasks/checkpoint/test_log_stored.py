"""A worker's log in a real S3 store as a source of events: read in parts, followed as it grows, refused."""

import pytest

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.parsers.logs.event import ReadState
from tasks.clients.logs.source import LogWindow, read_source
from tasks.clients.logs.workers import FAR, stored_log
from tasks.transport.base import TransportError
from tests.support.s3 import S3Server


def config(s3: S3Server) -> Orchestrator:
    """The section of the fleet file."""
    return Orchestrator.model_validate({"logs": {"bucket": "ckpt", "key": "logs/{worker}.log", "endpoint": s3.url}})


def put(s3: S3Server, text: str) -> None:
    """Upload it anew."""
    s3.client().put_object(Bucket="ckpt", Key="logs/gpu-7.log", Body=text.encode())


def test_read_and_followed(s3: S3Server, admin: None) -> None:
    text = "[10:00:00] INFO HEADLESS starts\nof no form\n[10:00:05] ERROR CUDA out of memory\n"
    put(s3, text)
    log = stored_log(config(s3), "gpu-7")
    events, read = log.read(LogWindow(follow=True))
    assert [(e.severity, e.worker, e.more) for e in events] == [("INFO", "gpu-7", ["of no form"]), ("ERROR", "gpu-7", [])]
    assert (read.state, read.lines, read.unfit) == (ReadState.WHOLE, 3, 1)
    assert any("no date" in note for note in read.notes)
    assert log.poll() == ([], ())
    put(s3, text + "[10:00:09] INFO on\n")
    (event,), _ = log.poll()
    assert (event.message, (event.at.year if event.at else 0) > 2000) == ("on", True)
    put(s3, "[10:01:00] INFO anew\n")
    events, notes = log.poll()
    assert ([e.message for e in events], len(notes)) == (["anew"], 1)


def test_a_long_one_is_cut_and_an_absent_one_proves_nothing(s3: S3Server, admin: None) -> None:
    put(s3, "[10:00:00] INFO x\n" * (FAR // 16))
    _, read = stored_log(config(s3), "gpu-7").read(LogWindow())
    assert (read.state, "newest 4 MiB" in read.why) == (ReadState.CUT, True)
    _, read = read_source(stored_log(config(s3), "gpu-none"), LogWindow())
    assert read.state is ReadState.NOT_READ
    assert "proves nothing" in read.why


def test_a_store_that_does_not_answer(admin: None) -> None:
    away = Orchestrator.model_validate({"logs": {"bucket": "ckpt", "key": "{worker}", "endpoint": "http://127.0.0.1:9"}})
    _, read = read_source(stored_log(away, "gpu-7"), LogWindow())
    assert read.state is ReadState.NOT_READ
    assert read.why.startswith("unreachable")


def test_who_may_not_read(s3: S3Server, admin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKNONE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x" * 20)
    _, read = read_source(stored_log(config(s3), "gpu-7"), LogWindow())
    assert (read.state, read.why.startswith("denied")) == (ReadState.NOT_READ, True)


def test_a_profile_that_is_not_there() -> None:
    wrong = Orchestrator.model_validate({"logs": {"bucket": "ckpt", "key": "{worker}", "profile": "no-such-profile"}})
    with pytest.raises(TransportError, match="no-such-profile"):
        stored_log(wrong, "gpu-7")
