"""One alert, whoever sent it: what the gateway and `alerts test` work on. Bounded, printable, with one key."""

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.clean import one_line

MOST_ALERTS = 5_000  # in one request
MOST_PAIRS = 100  # labels or annotations of one alert
LONGEST_NAME, LONGEST_VALUE = 200, 4_000


class BadPayload(ValueError):
    """A request body that is not what its sender's format says. The message names the field and is safe to send back."""


class Status(StrEnum):
    """Where an alert stands."""

    FIRING = "firing"
    RESOLVED = "resolved"


class AlertSource(StrEnum):
    """Whose format it came in."""

    ALERTMANAGER = "alertmanager"
    GRAFANA = "grafana"
    PAGERDUTY = "pagerduty"
    GENERIC = "generic"


class Alert(Frozen):
    """One alert. `fingerprint` names what is wrong where; with `starts_at` it names this time that it is."""

    source: AlertSource
    status: Status
    fingerprint: str = Field(min_length=1, max_length=LONGEST_NAME)
    starts_at: datetime
    ends_at: datetime | None = None  # of a resolved one, where its sender says so
    labels: dict[str, str]
    annotations: dict[str, str] = {}
    url: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.labels.get("alertname") or self.labels.get("title") or "unnamed alert"

    @property
    def mark(self) -> str:
        """Short stable name of the fingerprint: 16 hex digits."""
        return hashlib.sha256(self.fingerprint.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def key(self) -> str:
        """Idempotency key: fingerprint and start time. The same from every member of a pair of Alertmanagers."""
        start = self.starts_at.astimezone(UTC).isoformat(timespec="milliseconds")
        return hashlib.sha256(f"{self.fingerprint}\n{start}".encode("utf-8", "replace")).hexdigest()[:24]


def plain(value: object, longest: int = LONGEST_VALUE) -> str:
    """`value` as one printable line: no line ends, control, direction or lone surrogate characters; cut to `longest`."""
    text = value if isinstance(value, str) else ("true" if value is True else "false" if value is False else str(value))
    return one_line(text[: longest + 1])[:longest]


def pairs(data: object, field: str) -> dict[str, str]:
    """Labels or annotations: text to text. Numbers and booleans become text; anything deeper is refused."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise BadPayload(f"{field}: must be an object of text values")
    if len(data) > MOST_PAIRS:
        raise BadPayload(f"{field}: more than {MOST_PAIRS} entries")
    for name, value in data.items():
        if not isinstance(value, (str, int, float, bool)):
            raise BadPayload(f"{field}.{plain(name, 60)}: must be text")
    return {plain(name, LONGEST_NAME): plain(value) for name, value in data.items()}


def moment(value: object, field: str) -> datetime:
    """An RFC 3339 time with a zone. Raises BadPayload."""
    if not isinstance(value, str) or len(value) > 60:
        raise BadPayload(f"{field}: must be an RFC 3339 time such as 2026-01-31T12:00:00Z")
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise BadPayload(f"{field}: has no time zone")
        return found.astimezone(UTC)
    except (ValueError, OverflowError) as e:
        if isinstance(e, BadPayload):
            raise
        raise BadPayload(f"{field}: not an RFC 3339 time") from e


def end_of(value: object, status: Status, starts_at: datetime, field: str) -> datetime | None:
    """When a resolved alert ended. None while it fires (senders then give a time to come, or the year 1) and if not said."""
    found = moment(value, field) if value is not None and status is Status.RESOLVED else None
    return found if found is not None and found >= starts_at else None


def text_of(data: dict[str, Any], name: str, field: str, longest: int = LONGEST_VALUE) -> str:
    """The text in `data[name]`, "" if it is not there. Raises BadPayload if it is something else."""
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPayload(f"{field}: must be text")
    return plain(value, longest)
