"""Six-digit codes of a phone's authenticator (RFC 6238: SHA-1, 30 s, 6 digits). Pure: the time is passed in."""

import base64
import hashlib
import hmac
import struct
from datetime import datetime
from urllib.parse import quote

STEP_S = 30  # source: RFC 6238, section 5.2
DIGITS = 6
SECRET_BYTES = 20


def code_at(secret: bytes, step: int) -> str:
    """The code of that 30 s step."""
    mac = hmac.new(secret, struct.pack(">Q", step), hashlib.sha1).digest()  # as authenticators do
    at = mac[-1] & 0x0F
    number = int.from_bytes(mac[at : at + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def matching_step(secret: bytes, code: str, at: datetime, slack: int = 1) -> int | None:
    """The step whose code this is, at most `slack` steps from `at`; None: a wrong code."""
    plain = code.replace(" ", "")
    if len(plain) != DIGITS or not (plain.isascii() and plain.isdigit()):
        return None
    now = int(at.timestamp()) // STEP_S
    found = None
    for step in range(max(0, now - slack), now + slack + 1):
        if hmac.compare_digest(code_at(secret, step), plain):
            found = step
    return found


def provisioning_uri(name: str, secret: bytes, issuer: str = "gpu-runbooks") -> str:
    """The `otpauth://` address that an authenticator takes, typed or as a QR code."""
    return f"otpauth://totp/{quote(issuer)}:{quote(name)}?secret={base32(secret)}&issuer={quote(issuer)}"


def base32(secret: bytes) -> str:
    """The secret as an authenticator shows it."""
    return base64.b32encode(secret).decode().rstrip("=")
