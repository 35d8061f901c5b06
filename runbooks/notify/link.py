"""Signed approve links: bound to run, question and person, with an end. Pure: key and time are passed in."""

import base64
import binascii
import hashlib
import hmac
import json
from datetime import UTC, datetime

from runbooks.core.base import Frozen

LONGEST = 1_000
KEY_BYTES = 32


class BadLink(Exception):
    """Not one of ours, or changed. Says nothing about why."""


class Ticket(Frozen):
    """What a link stands for."""

    run: str
    key: str  # the approval key: first 40 hex digits of the plans' digest, and which time it is asked
    person: str
    ends: datetime

    def expired(self, now: datetime) -> bool:
        """True when the link's time is over."""
        return now >= self.ends


def sign(ticket: Ticket, key: bytes) -> str:
    """The link's last part."""
    facts = [ticket.run, ticket.key, ticket.person, int(ticket.ends.timestamp())]
    body = json.dumps(facts, separators=(",", ":"), ensure_ascii=True).encode()
    return f"{_b64(body)}.{_b64(_mac(key, b'approve-link', body))}"


def read(token: str, key: bytes) -> Ticket:
    """The ticket of a link that was signed with `key`. Raises BadLink; does not look at the clock."""
    if len(token) > LONGEST or not token.isascii():
        raise BadLink
    body64, dot, mac64 = token.partition(".")
    try:
        body, mac = _unb64(body64), _unb64(mac64)
    except (binascii.Error, ValueError) as e:
        raise BadLink from e
    canonical = dot and _b64(body) == body64 and _b64(mac) == mac64
    if not canonical or not hmac.compare_digest(mac, _mac(key, b"approve-link", body)):
        raise BadLink
    run, approval, person, ends = json.loads(body)
    return Ticket(run=run, key=approval, person=person, ends=datetime.fromtimestamp(ends, UTC))


def form_token(token: str, key: bytes) -> str:
    """Proof that a form was shown by us for this link: a decision without it is not taken."""
    return _b64(_mac(key, b"approve-form", token.encode()))


def proof(ticket: Ticket, decision: str, choice: str, key: bytes) -> str:
    """What the gateway gives the engine with an answer: this person's link gave this decision on this question."""
    facts = [ticket.run, ticket.key, ticket.person, decision, choice]
    return _b64(_mac(key, b"approve-answer", json.dumps(facts).encode()))


def _mac(key: bytes, purpose: bytes, body: bytes) -> bytes:
    if len(key) < KEY_BYTES:
        raise ValueError(f"the link key needs at least {KEY_BYTES} bytes")
    return hmac.new(key, purpose + b"\0" + body, hashlib.sha256).digest()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
