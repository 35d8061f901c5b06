"""Sends one message through one channel, within a limit. Never raises; says what happened, without the channel's secrets."""

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

from runbooks.core.outcome import Severity
from runbooks.notify.config import Channel
from tasks.installation import installation_redactor
from tasks.notify.address import NoAddress, read_address
from tasks.notify.outgoing import Outgoing, Sent

LIMIT_S = 8.0  # of one request to a channel; it is tried again later
BITS, HOST = re.compile(r"[/:@?&=#,]+"), re.compile(r"://(?:[^/@]*@)?([^/:?]+)")
ADDRESS = re.compile(r"https?://[^\s()\[\]<>]+")
SECRET_LENGTH = 8
ROOT = "<{}@incident.gpu-runbooks.invalid>"


Sender = Callable[[Any, str, Outgoing], Sent]


def send(channel: Channel, out: Outgoing, limit_s: float = LIMIT_S) -> Sent:
    """Sends, in a thread that is left behind when it takes too long."""
    try:
        url = read_address(channel.url)
    except NoAddress as e:
        return Sent(ok=False, said=str(e))
    found: list[Sent] = []
    thread = threading.Thread(target=lambda: found.append(_try(url, out)), name="notify", daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else Sent(ok=False, said=f"no answer within {limit_s:.0f} s; it may still arrive")


def _try(url: str, out: Outgoing) -> Sent:
    clean = _cleaner(url)
    try:
        sent = _send(url, out)
    except Exception as e:
        return Sent(ok=False, said=clean(f"{type(e).__name__}: {e}")[:300])
    return sent.model_copy(update={"said": clean(sent.said)[:300]})


def _cleaner(url: str) -> Callable[[str], str]:
    """Takes the URL and each part of it that may be a secret out of a text."""
    host = HOST.search(url)
    open_host = host[1] if host and "." in host[1] else ""
    known = {f"channel-{i}": b for i, b in enumerate(BITS.split(url)) if len(b) >= SECRET_LENGTH and b != open_host}
    return installation_redactor().knowing({"channel-url": url} | known).text


def _send(url: str, out: Outgoing) -> Sent:
    import apprise

    logging.getLogger("apprise").propagate = False  # its lines may hold parts of the URL: only we read them
    target = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if target is None:
        return Sent(ok=False, said="apprise does not understand the URL: see `apprise --details`, or its wiki")
    names = getattr(target, "secure_protocol", "")
    first = names[0] if isinstance(names, tuple) else names
    return _SENDERS.get(str(first), _apprise)(target, url, out)


def warm() -> None:
    """Loads apprise and its plug-ins, so that a process forked from this one need not: 0.9 s of CPU."""
    import apprise

    apprise.Apprise.instantiate("json://127.0.0.1/")


def _apprise(target: Any, _url: str, out: Outgoing, markdown: bool = False) -> Sent:
    """Any channel by apprise: it converts the text to what the channel takes."""
    import apprise

    kinds = {
        Severity.CRITICAL: apprise.NotifyType.FAILURE,
        Severity.WARNING: apprise.NotifyType.WARNING,
        Severity.INFO: apprise.NotifyType.SUCCESS if out.closing else apprise.NotifyType.INFO,
    }
    box = apprise.Apprise()
    box.add(target)
    lines: list[str] = []
    answer = box.notify(
        title=out.title,
        body=out.body,
        notify_type=kinds[out.severity],
        body_format=apprise.NotifyFormat.MARKDOWN if markdown else apprise.NotifyFormat.TEXT,
        log_callback=lambda entry, _service: lines.append(str(entry.message)),
        log_level=logging.WARNING,
    )
    return Sent(ok=True, said="sent") if answer else Sent(ok=False, said="; ".join(lines) or "the channel did not take it")


def _mail(target: Any, url: str, out: Outgoing) -> Sent:
    """By apprise, as an answer to the incident's root: mail programs show one thread."""
    if hasattr(target, "headers"):
        root = ROOT.format(out.incident)
        target.headers.update({"References": root, "In-Reply-To": root})
    return _apprise(target, url, out)


def _pagerduty(target: Any, _url: str, out: Outgoing) -> Sent:
    from tasks.notify.threads import pagerduty

    return pagerduty(str(target.integration_key), str(target.region_name), out)


def _slack(target: Any, url: str, out: Outgoing) -> Sent:
    """As a bot: in the incident's thread. By webhook: apprise, each message alone."""
    from tasks.notify.threads import slack

    token, rooms = getattr(target, "access_token", None), [str(c) for c in target.channels or ()]
    return slack(str(token), rooms[0], out) if token and len(rooms) == 1 else _apprise(target, url, out)


def _teams(target: Any, _url: str, out: Outgoing) -> Sent:
    """A workflow's card reads Markdown: each line a paragraph, each address, all ours, a link that shows where it leads."""
    lines = [ADDRESS.sub(r"[\g<0>](\g<0>)", line) for line in out.body.splitlines() if line]
    return _apprise(target, "", out.model_copy(update={"body": "\n\n".join(lines)}), markdown=True)


_SENDERS: dict[str, Sender] = {"mailtos": _mail, "pagerduty": _pagerduty, "slack": _slack, "workflow": _teams}
