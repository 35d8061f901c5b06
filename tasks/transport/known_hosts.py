"""Judges a server's host key by known_hosts text or a pinned key, by host and port. Pure: reads no file."""

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
from enum import StrEnum

from runbooks.core.base import Frozen


class Fact(StrEnum):
    """What is known of the key that a server showed."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    CANNOT_VERIFY = "cannot-verify"


class KnownHost(Frozen):
    """One line of known_hosts."""

    line: int
    marker: str  # "", "@revoked", "@cert-authority"
    hosts: tuple[str, ...]
    kind: str
    key: str  # base64


class HostKeyVerdict(Frozen):
    """The fact and the sentence for the report."""

    fact: Fact
    detail: str


def parse_known_hosts(text: str) -> tuple[KnownHost, ...]:
    """Entries of a known_hosts file; comments and lines that are none are passed over, as ssh does."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) >= 3:
            hosts = tuple(words[0].split(","))
            entries.append(KnownHost(line=number, marker=marker, hosts=hosts, kind=words[1], key=words[2]))
    return tuple(entries)


def name_of(host: str, port: int) -> str:
    """How known_hosts writes that address: the host alone for port 22."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def entries_for(entries: tuple[KnownHost, ...], host: str, port: int) -> tuple[KnownHost, ...]:
    """The entries that speak of this host and port."""
    names = {name_of(host, port), f"[{host.lower()}]:{port}"}
    return tuple(e for e in entries if any(_matches(e.hosts, name) for name in names))


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    hit = False
    for pattern in patterns:
        if pattern.startswith("!") and _one(pattern[1:], name):
            return False
        hit = hit or (not pattern.startswith("!") and _one(pattern, name))
    return hit


def _one(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _hashed(pattern, name)
    plain = pattern.lower().replace("[", "[[]")  # brackets are part of the name here, not of the pattern
    return fnmatch.fnmatchcase(name, plain)


def _hashed(pattern: str, name: str) -> bool:
    parts = pattern.split("|")
    try:
        salt, want = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (IndexError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), want)


def key_types(entries: tuple[KnownHost, ...]) -> tuple[str, ...]:
    """Key types known for a host, so that the server is asked for one of them."""
    return tuple(dict.fromkeys(e.kind for e in entries if not e.marker))


def fingerprint(key: str) -> str:
    """SHA256 fingerprint of a base64 key, as ssh-keygen -l prints it; "?" for what is no base64."""
    try:
        return "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(key)).digest()).decode().rstrip("=")
    except binascii.Error:
        return "?"


def judge_host_key(entries: tuple[KnownHost, ...], host: str, port: int, kind: str, key: str, where: str) -> HostKeyVerdict:
    """Whether the key (`kind`, base64 `key`) shown by host:port may be trusted; `where` names the file."""
    mine = entries_for(entries, host, port)
    shown = f"{kind} {fingerprint(key)}"
    revoked = [e for e in entries if e.marker == "@revoked" and e.key == key and e in mine]
    if revoked:
        said = f"host key of {host}:{port} is revoked ({where} line {revoked[0].line}): {shown}"
        return HostKeyVerdict(fact=Fact.REVOKED, detail=said)
    plain = [e for e in mine if not e.marker]
    if any(e.key == key and e.kind == kind for e in plain):
        return HostKeyVerdict(fact=Fact.TRUSTED, detail=shown)
    if plain:
        old = ", ".join(f"{e.kind} {fingerprint(e.key)} (line {e.line})" for e in plain)
        said = f"host key of {host}:{port} has changed: {where} knows {old}; the server shows {shown}"
        return HostKeyVerdict(fact=Fact.CHANGED, detail=said)
    if any(e.marker == "@cert-authority" for e in mine):
        said = f"{where} trusts a certificate authority for {host}:{port}, and a host certificate cannot be verified"
        return HostKeyVerdict(fact=Fact.CANNOT_VERIFY, detail=f"{said}; pin host_key instead (the server shows {shown})")
    return HostKeyVerdict(fact=Fact.UNKNOWN, detail=_unknown(entries, host, port, shown, where))


def _unknown(entries: tuple[KnownHost, ...], host: str, port: int, shown: str, where: str) -> str:
    said = f"host key of {host}:{port} is unknown: {where} has no key for it; the server shows {shown}"
    if port != 22 and entries_for(entries, host, 22):
        said += f" (a key is known for {host} on port 22, which is another server)"
    return said


_PINNED = re.compile(r"\s*(?:(?P<host>\S+)\s+)?(?P<kind>(?:ssh|ecdsa|sk)-[\w.@-]+)\s+(?P<key>[A-Za-z0-9+/=]+)(?:\s.*)?")


def parse_pinned(text: str, host: str, port: int) -> tuple[KnownHost, ...]:
    """A pinned `host_key` ("ssh-ed25519 AAAA…", also with host or comment) as an entry. Raises ValueError."""
    found = _PINNED.fullmatch(text)
    if not found:
        raise ValueError("host_key is not of the form 'ssh-ed25519 AAAA…'")
    return (KnownHost(line=1, marker="", hosts=(name_of(host, port),), kind=found["kind"], key=found["key"]),)
