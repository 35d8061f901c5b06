"""Says whether a request comes from who it says: bearer token, HMAC signature with a time, PagerDuty's signature.

All comparisons take the same time whatever is wrong. Nothing of a refused request is looked at, logged or stored.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping

from deployments.gateway.settings import GatewaySettings

SIGNATURE, TIMESTAMP = "x-signature", "x-signature-timestamp"
GRAFANA_SIGNATURE, GRAFANA_TIMESTAMP = "x-grafana-alerting-signature", "x-grafana-alerting-signature-timestamp"
PAGERDUTY_SIGNATURE = "x-pagerduty-signature"
MOST_SIGNATURES = 10  # PagerDuty sends one per secret that is being rotated
LARGEST_SEEN = 20_000


class Denied(Exception):
    """The request is not believed. The text goes back to the sender and says nothing about the secrets."""


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Hex HMAC-SHA256 of `<timestamp>:<body>`, as Grafana signs with a timestamp header."""
    return hmac.new(secret.encode(), timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()


def sign_pagerduty(secret: str, body: bytes) -> str:
    """`v1=` and the hex HMAC-SHA256 of the body, as PagerDuty's v3 webhooks sign."""
    return "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def same(a: str, b: str) -> bool:
    """Equal, in constant time, whatever characters a header holds."""
    return hmac.compare_digest(a.encode("utf-8", "replace"), b.encode("utf-8", "replace"))


def signature_of(headers: Mapping[str, str]) -> str:
    """The signature as it is compared, "" if there is none: one spelling, so that a replay is known."""
    return (headers.get(SIGNATURE) or headers.get(GRAFANA_SIGNATURE) or "").removeprefix("sha256=")


def proves_nothing(settings: GatewaySettings, headers: Mapping[str, str], pagerduty: bool) -> bool:
    """True if no body can make this request believed: its body need not be read then."""
    if settings.open:
        return False
    known = settings.secrets
    if known.token and headers.get("authorization"):
        return not _right_token(known.token, headers["authorization"])
    signed = signature_of(headers)
    by_pagerduty = known.pagerduty and pagerduty and headers.get(PAGERDUTY_SIGNATURE)
    return not (by_pagerduty or (known.hmac and signed))


def header_proves(settings: GatewaySettings, headers: Mapping[str, str]) -> bool:
    """True if this request is believed whatever its body holds: it carries the right token."""
    return bool(settings.secrets.token) and _right_token(settings.secrets.token, headers.get("authorization", ""))


def _right_token(token: str, header: str) -> bool:
    scheme, _, given = header.partition(" ")
    return same(given.strip(), token) and scheme.lower() == "bearer"


def verify(settings: GatewaySettings, headers: Mapping[str, str], body: bytes, now: float, pagerduty: bool = False) -> str:
    """How the sender proved itself: "token", "signature", "pagerduty" or "open". Raises Denied."""
    if settings.open:
        if headers.get("origin"):
            raise Denied("a browser's page may not send alerts to a gateway without authentication")
        return "open"
    known = settings.secrets
    given = headers.get("authorization", "")
    if known.token and given:
        if _right_token(known.token, given):
            return "token"
        raise Denied("the bearer token is not the gateway's")
    if known.pagerduty and pagerduty and headers.get(PAGERDUTY_SIGNATURE):
        return _pagerduty(known.pagerduty, headers[PAGERDUTY_SIGNATURE], body)
    if known.hmac:
        return _signature(settings, headers, body, now)
    raise Denied("authentication required")


def _pagerduty(secret: str, header: str, body: bytes) -> str:
    right = sign_pagerduty(secret, body)
    found = [same(one.strip(), right) for one in header.split(",")[:MOST_SIGNATURES]]
    if any(found):
        return "pagerduty"
    raise Denied("PagerDuty's signature is wrong")


def _signature(settings: GatewaySettings, headers: Mapping[str, str], body: bytes, now: float) -> str:
    given = signature_of(headers)
    stamp = headers.get(TIMESTAMP) or headers.get(GRAFANA_TIMESTAMP)
    if not given:
        raise Denied("authentication required")
    if not stamp:
        raise Denied(f"a signature needs its time: header {TIMESTAMP} (Unix seconds), signed in front of the body")
    right = sign(settings.secrets.hmac, stamp, body)
    if not same(given, right):
        raise Denied("the signature is wrong")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise Denied("the signature's time must be Unix seconds")
    if abs(now - int(stamp)) > settings.replay_window_s:
        raise Denied(f"the signature's time is more than {settings.replay_window_s:.0f} s away from this machine's clock")
    return "signature"


class Answered:
    """Signed requests that were answered well: one sent again within the window has no effect a second time."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: OrderedDict[str, float] = OrderedDict()

    def seen(self, signature: str, now: float) -> bool:
        """True if that signature was answered within the window."""
        while self._seen and (len(self._seen) > LARGEST_SEEN or next(iter(self._seen.values())) < now - 2 * self._window_s):
            self._seen.popitem(last=False)
        return signature in self._seen

    def add(self, signature: str, now: float) -> None:
        """Remember it."""
        self._seen[signature] = now
