"""Key text to its shape: format, type, size, damage, fingerprint. Never returns, logs or quotes key material."""

import base64
import binascii
import hashlib
import re
import struct
from enum import StrEnum

from runbooks.core.base import Frozen


class KeyFormat(StrEnum):
    """What kind of file it is."""

    OPENSSH = "openssh"
    PEM = "pem"  # BEGIN RSA/EC/DSA PRIVATE KEY
    PKCS8 = "pkcs8"
    PUTTY = "putty"
    PUBLIC = "public"
    CERTIFICATE = "certificate"
    NONE = "none"  # nothing that looks like a key
    EMPTY = "empty"


class Damage(StrEnum):
    """What is wrong with the text. The first group can be put right without the owner; the second cannot."""

    NO_FINAL_NEWLINE = "no-final-newline"
    CRLF = "crlf"
    LITERAL_NEWLINES = "literal-newlines"
    QUOTED = "quoted"
    ONE_LINE = "one-line"  # newlines became blanks
    SPACES = "surrounding-blanks"
    TRUNCATED = "truncated"
    BASE64 = "damaged-base64"


LOST = (Damage.TRUNCATED, Damage.BASE64)


class KeyShape(Frozen):
    """A key as far as it can be described without showing it."""

    format: KeyFormat
    type: str = ""  # ssh-ed25519, ssh-rsa, ecdsa-sha2-nistp256 …; "" where the format hides it
    bits: int = 0
    encrypted: bool = False
    damage: tuple[Damage, ...] = ()
    fingerprint: str = ""  # SHA256:… of the public half

    @property
    def private(self) -> bool:
        """It is (or was meant to be) a private key."""
        return self.format in (KeyFormat.OPENSSH, KeyFormat.PEM, KeyFormat.PKCS8, KeyFormat.PUTTY)

    @property
    def repairable(self) -> bool:
        """Damaged, and everything is still there."""
        return bool(self.damage) and not any(d in LOST for d in self.damage)


_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----")
_PUBLIC = re.compile(
    r"\s*(?:(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\S+|sk-\S+)(?P<cert>-cert-v01@openssh\.com)?) +(?P<blob>[A-Za-z0-9+/=]+)"
)


def fingerprint(blob: bytes) -> str:
    """SHA256 fingerprint of a public key blob, as ssh-keygen -l prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def public_shape(text: str) -> KeyShape | None:
    """Shape of a public key line (`ssh-ed25519 AAAA… comment`); None if it is none."""
    found = _PUBLIC.match(text)
    if not found:
        return None
    kind = KeyFormat.CERTIFICATE if found["cert"] else KeyFormat.PUBLIC
    try:
        blob = base64.b64decode(found["blob"], validate=True)
        name, size = _blob_type(blob)
    except (ValueError, binascii.Error, struct.error):
        return KeyShape(format=kind, damage=(Damage.BASE64,))
    return KeyShape(format=kind, type=name, bits=size, fingerprint=fingerprint(blob))


def describe_key_text(text: str) -> KeyShape:
    """Shape of what a key file, variable or secret holds."""
    if not text.strip():
        return KeyShape(format=KeyFormat.EMPTY)
    if text.lstrip().startswith("PuTTY-User-Key-File-"):
        return KeyShape(format=KeyFormat.PUTTY, encrypted="Encryption: none" not in text)
    begin = _BEGIN.search(text)
    if begin is None:
        return public_shape(text.strip().strip("'\"")) or KeyShape(format=KeyFormat.NONE)
    damage = _text_damage(text)
    label = begin[1].strip()
    body, lost = _body(text, f"-----END {begin[1]}PRIVATE KEY-----")
    shape = {"OPENSSH": _openssh, "": _pkcs8, "ENCRYPTED": _pkcs8_encrypted}.get(label, _pem)(body, text)
    if lost:
        return shape.model_copy(update={"damage": (*damage, lost)})
    return shape.model_copy(update={"damage": (*damage, *shape.damage)})


def tidy(text: str) -> str:
    """The same key as a file should hold it: LF line ends, no quotes, one final newline. For repairable damage only."""
    text = text.strip().strip("'\"").replace("\\r", "").replace("\\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) == 1:
        begin, end = lines[0].find("-----", 11), lines[0].rfind("-----END")
        if 0 <= begin < end:
            whole = lines[0]
            lines = [whole[: begin + 5], *whole[begin + 5 : end].split(), whole[end:]]
    return "\n".join(lines) + "\n"


def _text_damage(text: str) -> tuple[Damage, ...]:
    found = []
    bare = text.strip()
    if bare[:1] in "'\"":
        found.append(Damage.QUOTED)
    if "\r" in text:
        found.append(Damage.CRLF)
    if "\\n" in text:
        found.append(Damage.LITERAL_NEWLINES)
    elif "\n" not in bare:
        found.append(Damage.ONE_LINE)
    if text[:1].isspace() or re.search(r"^[ \t]+\S", text, re.M):
        found.append(Damage.SPACES)
    if not found and not text.endswith("\n"):
        found.append(Damage.NO_FINAL_NEWLINE)
    return tuple(found)


def _body(text: str, end: str) -> tuple[bytes, Damage | None]:
    """The decoded body, and what is lost of it."""
    clean = tidy(text)
    if end not in clean:
        return b"", Damage.TRUNCATED
    inner = clean.split("-----", 2)[2].partition("-----END")[0]
    lines = [line for line in inner.splitlines() if ":" not in line]
    try:
        return base64.b64decode("".join(lines), validate=True), None
    except (ValueError, binascii.Error):
        return b"", Damage.BASE64


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">I", data, at)
    if at + 4 + size > len(data):
        raise ValueError("cut short")
    return data[at + 4 : at + 4 + size], at + 4 + size


def _blob_type(blob: bytes) -> tuple[str, int]:
    """Type and bits of a public key blob. Raises ValueError, struct.error."""
    name, at = _string(blob, 0)
    kind = name.decode("ascii")
    if kind == "ssh-rsa":
        _, at = _string(blob, at)
        n, _ = _string(blob, at)
        return kind, int.from_bytes(n, "big").bit_length()
    if kind.startswith("ecdsa-sha2-nistp"):
        return kind, int(re.sub(r"\D", "", kind.partition("nistp")[2].partition("-")[0]) or 0)
    return kind, 256 if "ed25519" in kind else 0


def _openssh(body: bytes, _text: str) -> KeyShape:
    magic = b"openssh-key-v1\0"
    try:
        if not body.startswith(magic):
            raise ValueError("no magic")
        cipher, at = _string(body, len(magic))
        _, at = _string(body, at)
        _, at = _string(body, at)
        blob, at = _string(body, at + 4)
        _string(body, at)
        name, bits = _blob_type(blob)
    except (ValueError, struct.error):
        return KeyShape(format=KeyFormat.OPENSSH, damage=(Damage.TRUNCATED,))
    return KeyShape(
        format=KeyFormat.OPENSSH, type=name, bits=bits, encrypted=cipher != b"none", fingerprint=fingerprint(blob)
    )


def _pem(body: bytes, text: str) -> KeyShape:
    label = "RSA" if "BEGIN RSA" in text else "EC" if "BEGIN EC" in text else "DSA"
    kind = {"RSA": "ssh-rsa", "EC": "ecdsa-sha2", "DSA": "ssh-dss"}[label]
    if "ENCRYPTED" in text:
        return KeyShape(format=KeyFormat.PEM, type=kind, encrypted=True)
    if label != "RSA":
        return KeyShape(format=KeyFormat.PEM, type=kind)
    return _rsa(body, KeyFormat.PEM)


def _pkcs8(body: bytes, _text: str) -> KeyShape:
    rsa = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"  # object identifier rsaEncryption
    if rsa not in body:
        kind = "ssh-ed25519" if b"\x2b\x65\x70" in body[:20] else ""
        return KeyShape(format=KeyFormat.PKCS8, type=kind, bits=256 if kind else 0)
    try:
        inner, _ = _der(body, 0, 0x30)
        _, at = _der(inner, 0, 0x02)
        _, at = _der(inner, at, 0x30)
        key, _ = _der(inner, at, 0x04)
    except (ValueError, IndexError):
        return KeyShape(format=KeyFormat.PKCS8, damage=(Damage.TRUNCATED,))
    return _rsa(key, KeyFormat.PKCS8)


def _pkcs8_encrypted(_body: bytes, _text: str) -> KeyShape:
    return KeyShape(format=KeyFormat.PKCS8, encrypted=True)


def _der(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """One DER element with that tag: its content and where the next begins."""
    if data[at] != tag:
        raise ValueError("another tag")
    size, at = data[at + 1], at + 2
    if size & 0x80:
        width = size & 0x7F
        size, at = int.from_bytes(data[at : at + width], "big"), at + width
    if at + size > len(data):
        raise ValueError("cut short")
    return data[at : at + size], at + size


def _rsa(body: bytes, kind: KeyFormat) -> KeyShape:
    """RSA in PKCS#1: version, n, e; the fingerprint is that of the blob that ssh would send."""
    try:
        inner, _ = _der(body, 0, 0x30)
        _, at = _der(inner, 0, 0x02)
        n, at = _der(inner, at, 0x02)
        e, _ = _der(inner, at, 0x02)
    except (ValueError, IndexError):
        return KeyShape(format=kind, type="ssh-rsa", damage=(Damage.TRUNCATED,))
    blob = b"".join(struct.pack(">I", len(x)) + x for x in (b"ssh-rsa", e, n))
    bits = int.from_bytes(n, "big").bit_length()
    return KeyShape(format=kind, type="ssh-rsa", bits=bits, fingerprint=fingerprint(blob))
