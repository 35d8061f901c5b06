"""Bodies of Alertmanager, Grafana, PagerDuty and the generic format, to alerts. Pure: bytes in, alerts out."""

import hashlib
import json
from datetime import datetime
from typing import Any

from runbooks.alerts.alert import (
    LONGEST_NAME,
    MOST_ALERTS,
    Alert,
    AlertSource,
    BadPayload,
    Status,
    end_of,
    moment,
    pairs,
    plain,
    text_of,
)


def parse(source: AlertSource, body: bytes) -> tuple[Alert, ...]:
    """Every alert in a request's body. Raises BadPayload that names the field."""
    data = _json(body)
    if source is AlertSource.PAGERDUTY:
        return _pagerduty(data)
    if source is AlertSource.GENERIC:
        return _generic(data)
    return _alertmanager(data, source)


def _json(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as e:
        raise BadPayload(f"not UTF-8 (byte {e.start})") from e
    except (ValueError, RecursionError) as e:
        raise BadPayload(f"not JSON: {plain(getattr(e, 'msg', 'nested too deep, or a number too long'), 100)}") from e
    if not isinstance(data, dict):
        raise BadPayload("the body must be a JSON object")
    return data


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _list(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = data.get(name)
    if not isinstance(found, list):
        raise BadPayload(f"{name}: required, a list")
    if len(found) > MOST_ALERTS:
        raise BadPayload(f"{name}: more than {MOST_ALERTS} in one request")
    for i, item in enumerate(found):
        if not isinstance(item, dict):
            raise BadPayload(f"{name}.{i}: must be an object")
    return found


def _status(data: dict[str, Any], field: str) -> Status:
    said = data.get("status")
    if said not in (Status.FIRING.value, Status.RESOLVED.value):
        raise BadPayload(f"{field}: must be firing or resolved")
    return Status(said)


def _alertmanager(data: dict[str, Any], source: AlertSource) -> tuple[Alert, ...]:
    """Version 4 of Alertmanager's webhook; Grafana's is the same with more fields (there `version` is "1")."""
    if source is AlertSource.ALERTMANAGER and str(data.get("version", "4")) != "4":
        raise BadPayload(f"version: {plain(data.get('version'), 20)!r}; only Alertmanager's webhook version 4 is known")
    common = pairs(data.get("commonAnnotations"), "commonAnnotations")
    return tuple(_from_list(item, f"alerts.{i}", source, common) for i, item in enumerate(_list(data, "alerts")))


def _from_list(item: dict[str, Any], field: str, source: AlertSource, common: dict[str, str]) -> Alert:
    labels = pairs(item.get("labels"), f"{field}.labels")
    if not labels:
        raise BadPayload(f"{field}.labels: required, and not empty")
    status, starts_at = _status(item, f"{field}.status"), moment(item.get("startsAt"), f"{field}.startsAt")
    return Alert(
        source=source,
        status=status,
        fingerprint=text_of(item, "fingerprint", f"{field}.fingerprint", LONGEST_NAME) or fingerprint(labels),
        starts_at=starts_at,
        ends_at=end_of(item.get("endsAt"), status, starts_at, f"{field}.endsAt"),
        labels=labels,
        annotations=common | pairs(item.get("annotations"), f"{field}.annotations"),
        url=text_of(item, "generatorURL", f"{field}.generatorURL"),
    )


def fingerprint(labels: dict[str, str]) -> str:
    """For senders without one: a hash of all labels."""
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()[:16]


GENERIC_FIELDS = ("status", "name", "labels", "annotations", "starts_at", "ends_at", "fingerprint", "url")


def _generic(data: dict[str, Any]) -> tuple[Alert, ...]:
    """`{"alerts": [ … ]}` or one alert alone; see runbooks/alerts/generic.schema.json."""
    items = _list(data, "alerts") if "alerts" in data else [data]
    return tuple(_from_generic(item, f"alerts.{i}" if "alerts" in data else "alert") for i, item in enumerate(items))


def _from_generic(item: dict[str, Any], field: str) -> Alert:
    unknown = sorted(str(k) for k in item if k not in GENERIC_FIELDS)
    if unknown:
        raise BadPayload(f"{field}: unknown field {plain(unknown[0], 60)!r}; allowed: {', '.join(GENERIC_FIELDS)}")
    labels = pairs(item.get("labels"), f"{field}.labels")
    name = text_of(item, "name", f"{field}.name", LONGEST_NAME)
    if name:
        labels = {"alertname": name} | labels
    if not labels:
        raise BadPayload(f"{field}: give a name, labels, or both")
    status = _status({"status": item.get("status", "firing")}, f"{field}.status")
    starts_at = moment(item.get("starts_at"), f"{field}.starts_at")
    return Alert(
        source=AlertSource.GENERIC,
        status=status,
        fingerprint=text_of(item, "fingerprint", f"{field}.fingerprint", LONGEST_NAME) or fingerprint(labels),
        starts_at=starts_at,
        ends_at=end_of(item.get("ends_at"), status, starts_at, f"{field}.ends_at"),
        labels=labels,
        annotations=pairs(item.get("annotations"), f"{field}.annotations"),
        url=text_of(item, "url", f"{field}.url"),
    )


def pagerduty_event(body: bytes) -> tuple[str, datetime | None]:
    """Id and time of a PagerDuty event: its signature holds no time. ("", None) where the body has none."""
    event = _json(body).get("event")
    if not isinstance(event, dict):
        return "", None
    at = event.get("occurred_at")
    return text_of(event, "id", "event.id", LONGEST_NAME), moment(at, "event.occurred_at") if at is not None else None


TRIGGERED = ("incident.triggered", "incident.reopened")
ENDED = ("incident.resolved",)


def _pagerduty(data: dict[str, Any]) -> tuple[Alert, ...]:
    """A v3 webhook event. Others than incident events (and the ping of a new subscription) hold no alert."""
    event = data.get("event")
    if not isinstance(event, dict):
        raise BadPayload("event: required, an object (PagerDuty webhook v3)")
    kind = text_of(event, "event_type", "event.event_type", 100)
    if not kind:
        raise BadPayload("event.event_type: required")
    if kind not in (*TRIGGERED, *ENDED):
        return ()
    incident = event.get("data")
    if not isinstance(incident, dict) or not incident.get("id"):
        raise BadPayload("event.data.id: required")
    title = text_of(incident, "title", "event.data.title")
    labels = {"alertname": title, "title": title, "incident": text_of(incident, "id", "event.data.id", LONGEST_NAME)}
    for name in ("service", "priority", "escalation_policy"):
        labels[name] = _summary(incident.get(name))
    labels |= {n: text_of(incident, n, f"event.data.{n}", LONGEST_NAME) for n in ("urgency", "incident_key")}
    status = Status.RESOLVED if kind in ENDED else Status.FIRING
    starts_at = moment(_began(kind, event, incident), "event.data.created_at")
    return (
        Alert(
            source=AlertSource.PAGERDUTY,
            status=status,
            fingerprint=labels["incident"],
            starts_at=starts_at,
            ends_at=end_of(event.get("occurred_at"), status, starts_at, "event.occurred_at"),
            labels={n: v for n, v in (labels | title_labels(title)).items() if v},
            url=text_of(incident, "html_url", "event.data.html_url"),
        ),
    )


def _began(kind: str, event: dict[str, Any], incident: dict[str, Any]) -> object:
    """A reopened incident keeps its `created_at`, and is a new time that something is wrong."""
    first = event.get("occurred_at") if kind == "incident.reopened" else incident.get("created_at")
    return first or event.get("occurred_at")


def _summary(reference: object) -> str:
    found = reference.get("summary") if isinstance(reference, dict) else ""
    return plain(found, LONGEST_NAME) if isinstance(found, str) else ""


def title_labels(title: str) -> dict[str, str]:
    """`name=value` words of an incident's title as labels: PagerDuty's webhook carries no alert details."""
    found: dict[str, str] = {}
    for word in title.replace(",", " ").replace(";", " ").split():
        name, equals, value = word.strip("()[]{}").partition("=")
        value = value.strip("\"'()[]{}")
        if equals and value and name.isidentifier() and len(found) < MOST_TITLE_LABELS:
            found.setdefault(name, value)
    return {n: v for n, v in found.items() if n not in ("incident", "title", "service", "urgency")}


MOST_TITLE_LABELS = 20
