"""Alert payloads as lines: what Alertmanager and Grafana send, and what the APIs of Alertmanager and Prometheus answer."""

import json
from collections.abc import Mapping
from typing import Any

_OVER = ("resolved", "inactive", "normal", "ok")


def is_payload(data: bytes) -> bool:
    """Whether the text begins like one."""
    head = data[:4096].lstrip()
    return head.startswith((b"{", b"[")) and (b'"alerts"' in data or b'"annotations"' in data) and b'"labels"' in data


def lines_of(data: bytes) -> list[str] | None:
    """One line for each alert; None where it is no payload after all."""
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return None
    alerts = _alerts(payload)
    shared = payload if isinstance(payload, dict) else {}
    return [_line(a, shared) for a in alerts if isinstance(a, dict)] if alerts is not None else None


def _alerts(payload: Any) -> list[Any] | None:
    if isinstance(payload, list):
        return payload if any("alertname" in _texts(a.get("labels")) for a in payload if isinstance(a, dict)) else None
    if not isinstance(payload, dict):
        return None
    for holder in (payload, payload.get("data")):
        if isinstance(holder, list):
            return holder
        if isinstance(holder, dict) and isinstance(holder.get("alerts"), list):
            return list(holder["alerts"])
        if isinstance(holder, dict) and isinstance(holder.get("groups"), list):
            rules = [r for g in holder["groups"] if isinstance(g, dict) for r in g.get("rules") or ()]
            return [a for r in rules if isinstance(r, dict) for a in r.get("alerts") or ()]
    return None


def _line(alert: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """A resolved alert says nothing that could be matched."""
    labels = {**_texts(shared.get("commonLabels")), **_texts(alert.get("labels"))}
    notes = {**_texts(shared.get("commonAnnotations")), **_texts(alert.get("annotations"))}
    name = labels.pop("alertname", "")
    if _state(alert) in _OVER:
        return f"resolved alert {name}"
    words = " ".join(f"{k}={v}" for k, v in labels.items())
    return f"alert {name} firing {words}: {' '.join(notes.values())}"


def _state(alert: Mapping[str, Any]) -> str:
    status = alert.get("status") or alert.get("state") or ""
    return str(status.get("state", "") if isinstance(status, dict) else status).lower()


def _texts(given: Any) -> dict[str, str]:
    return {str(k): " ".join(str(v).split()) for k, v in given.items()} if isinstance(given, dict) else {}
