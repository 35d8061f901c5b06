"""Channels that can hold an incident together and where apprise cannot: PagerDuty's deduplication key, Slack's threads."""

from typing import Any

import httpx

from runbooks.core.outcome import Severity
from tasks.notify.outgoing import Outgoing, Sent

TIMEOUT = httpx.Timeout(4.0)
PAGERDUTY = {"us": "https://events.pagerduty.com/v2/enqueue", "eu": "https://events.eu.pagerduty.com/v2/enqueue"}
SLACK = "https://slack.com/api/chat.postMessage"


def pagerduty(routing_key: str, region: str, out: Outgoing) -> Sent:
    """Events API v2: triggers or resolves the incident with our key; a second trigger is added to the first one.

    What needs nobody is not sent: whatever its severity, an event would open an incident.
    """
    if out.severity is Severity.INFO and not out.closing:
        return Sent(ok=True, said="not sent: it would open an incident, and nobody is needed")
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if out.closing else "trigger",
        "dedup_key": f"gpu-runbooks-{out.incident}",
        "payload": {
            "summary": out.title[:1024],
            "source": "gpu-runbooks",
            "severity": out.severity.value,
            "custom_details": {"text": out.body[:20_000]},
        },
    }
    if out.link:
        event["links"] = [{"href": out.link, "text": "report"}]
    answer = httpx.post(PAGERDUTY.get(region, PAGERDUTY["us"]), json=event, timeout=TIMEOUT)
    if answer.status_code == httpx.codes.ACCEPTED:
        return Sent(ok=True, said="resolved" if out.closing else "sent", ref=str(event["dedup_key"]))
    return Sent(ok=False, said=f"PagerDuty answered {answer.status_code}: {answer.text[:200]}")


def slack(token: str, room: str, out: Outgoing) -> Sent:
    """chat.postMessage: the incident's first message, or an answer in its thread; bad news shows in the room as well."""
    text = f"*{_escaped(out.title)}*\n{_escaped(out.body)}"
    post: dict[str, Any] = {"channel": room, "text": text[:30_000], "unfurl_links": False, "unfurl_media": False}
    if out.earlier:
        post |= {"thread_ts": out.earlier, "reply_broadcast": out.severity is not Severity.INFO}
    answer = httpx.post(SLACK, json=post, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT)
    said = answer.json() if answer.status_code == httpx.codes.OK else {}
    if said.get("ok"):
        return Sent(ok=True, said="sent", ref=out.earlier or str(said.get("ts", "")))
    return Sent(ok=False, said=f"Slack answered {answer.status_code}: {said.get('error', '')}")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
