"""Each kind of channel on a real receiver: one incident stays together, time is bounded, secrets stay inside."""

import os
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from runbooks.core.outcome import Severity
from runbooks.core.show import chat, chat_link, chat_text
from runbooks.notify.config import Address, Channel
from tasks.notify import keys, threads
from tasks.notify.outgoing import Outgoing, Sent
from tasks.notify.send import send
from tests.support.etcd_secure import certificates
from tests.support.receivers import MailServer, Webhook

CHANNEL = Channel(url=Address(env="THE_URL"))
OUT = Outgoing(incident="abc", severity=Severity.CRITICAL, title=chat("t & <x>"), body=chat_text("l1\nl2 {}", "<b>&"), link="http://r")
OVER = OUT.model_copy(update={"closing": True, "severity": Severity.INFO})


def through(monkeypatch: pytest.MonkeyPatch, url: str, out: Outgoing = OUT, limit_s: float = 20.0) -> Sent:
    monkeypatch.setenv("THE_URL", url)
    return send(CHANNEL, out, limit_s)


def test_mail_is_one_thread(mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"mailto://127.0.0.1:{mail.port}/?from=gpu@example.com&to=ana@example.com&format=text"
    for out in (OUT, OVER):
        assert through(monkeypatch, url, out).ok
    first, last = mail.got
    assert str(make_header(decode_header(first["Subject"]))) == "t & ‹x›"
    assert first["References"] == last["References"] == "<abc@incident.gpu-runbooks.invalid>"
    payload = first.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert "l2 ‹b›&" in payload.decode()


def test_a_channel_takes_nothing_that_was_not_made_harmless() -> None:
    with pytest.raises(ValueError, match="instance of Chat"):
        Outgoing.model_validate({"incident": "a", "severity": Severity.INFO, "title": "x", "body": "https://evil.example"})


def test_pagerduty_is_one_incident_that_is_resolved(hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.answer = 202
    monkeypatch.setitem(threads.PAGERDUTY, "us", f"http://127.0.0.1:{hook.port}/v2/enqueue")
    for out in (OUT, OVER):
        assert through(monkeypatch, "pagerduty://ROUTINGKEY1234@APIKEY1234", out).ok
    first, last = hook.got
    assert (first["event_action"], last["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == last["dedup_key"] == "gpu-runbooks-abc"
    assert first["routing_key"] == "ROUTINGKEY1234"
    assert first["payload"]["severity"] == "critical"
    assert through(monkeypatch, "pagerduty://ROUTINGKEY1234@APIKEY1234", OVER.model_copy(update={"closing": False})).ok
    assert len(hook.got) == 2  # a digest opens no incident
    hook.answer = 400
    failed = through(monkeypatch, "pagerduty://ROUTINGKEY1234@APIKEY1234")
    assert "400" in failed.said
    assert "ROUTINGKEY" not in failed.said


def test_slack_bot_answers_in_the_thread(hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SLACK", f"http://127.0.0.1:{hook.port}/api/chat.postMessage")
    hook.reply = {"ok": True, "ts": "1503435956.000247"}
    url = "slack://xoxb-1234-1234-abc124/#gpu"
    sent = through(monkeypatch, url)
    assert (sent.ok, sent.ref) == (True, "1503435956.000247")
    again = through(monkeypatch, url, OVER.model_copy(update={"earlier": sent.ref}))
    assert again.ref == sent.ref
    first, last = hook.got
    assert "thread_ts" not in first
    assert (last["thread_ts"], last["reply_broadcast"]) == (sent.ref, False)
    assert "‹b›&amp;" in first["text"]
    hook.reply = {"ok": False, "error": "channel_not_found"}
    assert through(monkeypatch, url).said == "Slack answered 200: channel_not_found"


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[Webhook]:
    """Where a Teams workflow's address points: HTTPS."""
    certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    made = Webhook(context)
    yield made
    made.close()


def test_teams_gets_a_card_that_it_shows(teams: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that "Post to a channel when a webhook request is received" takes: a message with one adaptive card."""
    ours = chat_link("http://ui/key/a_b-c")
    body = chat_text("l1\nl2 {}\n\n- a\nReport: {}", "[free GPUs](http://evil.example)", ours)
    out = OUT.model_copy(update={"body": body})
    teams.answer = 202
    assert through(monkeypatch, f"workflows://127.0.0.1:{teams.port}/{'ab12' * 8}/{'s' * 43}/?verify=no", out).ok
    [got] = teams.got
    assert got["path"].startswith(f"/workflows/{'ab12' * 8}/triggers/manual/paths/invoke?")
    assert "sig=" + "s" * 43 in got["path"]
    assert got["type"] == "message"
    [card] = got["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    content = card["content"]
    assert (content["type"], content["$schema"]) == ("AdaptiveCard", "http://adaptivecards.io/schemas/adaptive-card.json")
    assert float(content["version"]) <= 1.5  # the newest that Teams shows
    texts = [b["text"] for b in content["body"] if b["type"] == "TextBlock"]
    assert texts[0] == "t & ‹x›"
    report = "[http://ui/key/a_b-c](http://ui/key/a_b-c)"  # the one link there is
    assert texts[1] == f"l1\n\nl2 [free GPUs] (hxxp://evil[.]example)\n\n- a\n\nReport: {report}"
    assert {b["type"] for b in content["body"]} <= {"TextBlock", "Image"}
    teams.answer = 400
    failed = through(monkeypatch, f"workflows://127.0.0.1:{teams.port}/{'ab12' * 8}/{'s' * 43}/?verify=no", out)
    assert "400" in failed.said
    assert "sss" not in failed.said


def test_a_channel_that_hangs_is_left(hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.hang_s = 20
    import apprise  # noqa: F401 - not what is measured

    began = time.monotonic()
    sent = through(monkeypatch, f"json://127.0.0.1:{hook.port}/x", limit_s=0.5)
    assert "no answer within" in sent.said
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("url", ["nonsense", "json://", "nosuch://x/y", "a\nb://c", "mailto://[", "slack://x"])
def test_a_bad_address_is_said_and_never_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = through(monkeypatch, url)
    assert not sent.ok
    assert sent.said


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("json://x/y")
    path.chmod(0o644)
    assert "chmod 600" in send(Channel(url=Address(file=str(path))), OUT).said


def test_the_link_key_is_made_once_by_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    found: list[bytes] = []
    racers = [threading.Thread(target=lambda: found.append(keys.link_key())) for _ in range(8)]
    for r in racers:
        r.start()
    for r in racers:
        r.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    path = tmp_path / "home" / "link.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(keys.NoKey, match="read by others"):
        keys.link_key()
    monkeypatch.setenv(keys.ENV, "short")
    with pytest.raises(keys.NoKey, match="openssl"):
        keys.link_key()
    monkeypatch.setenv(keys.ENV, os.urandom(32).hex())
    assert len(keys.link_key()) == 64
