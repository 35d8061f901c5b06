"""Bytes that an SSH server sends before any key is exchanged: identification line and KEXINIT. Pure."""

import re
import struct
from enum import StrEnum

from runbooks.core.base import Frozen

KEXINIT = 20
FIELDS = ("kex", "host_keys", "ciphers", "ciphers_back", "macs", "macs_back")


_CLOSED = re.compile(r"\b(?:closed|reset)\b")  # in our words, and in those of OpenSSH's client and of the system


class NoBanner(StrEnum):
    """How a connection ended that gave no banner."""

    CLOSED = "closed"  # by the other side
    SILENT = "silent"
    OTHER = "other"  # what came is no SSH


class Offer(Frozen):
    """Algorithms that the server offers."""

    kex: tuple[str, ...]
    host_keys: tuple[str, ...]
    ciphers: tuple[str, ...]
    macs: tuple[str, ...]


def split_banner(data: bytes) -> tuple[str, tuple[str, ...], bytes]:
    """(identification line, lines before it, the rest). The identification is "" while it has not come."""
    before: list[str] = []
    while b"\n" in data:
        line, _, data = data.partition(b"\n")
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        if text.startswith("SSH-"):
            return text[:255], tuple(before), data
        before.append(text[:200])
    return "", (*before, *((data.decode("utf-8", "replace")[:200],) if data else ())), b""


def no_banner(said: str) -> NoBanner | None:
    """By the recorded words; None: they do not tell. What the other side sent stands behind the first words."""
    if said.startswith("not an SSH"):
        return NoBanner.OTHER
    if said.startswith("silent"):
        return NoBanner.SILENT
    return NoBanner.CLOSED if _CLOSED.search(said) else None


def parse_kexinit(packet: bytes) -> Offer | None:
    """The offer in an unencrypted KEXINIT packet; None while it is not whole. Raises ValueError for another packet."""
    if len(packet) < 5:
        return None
    size, padding = struct.unpack_from(">IB", packet)
    if size > 65536 or padding >= size:
        raise ValueError("not an SSH packet")
    if len(packet) < 4 + size:
        return None
    payload = packet[5 : 4 + size - padding]
    if not payload or payload[0] != KEXINIT:
        raise ValueError(f"expected KEXINIT, found message {payload[0] if payload else '?'}")
    at, lists = 17, []
    for _ in FIELDS:
        (width,) = struct.unpack_from(">I", payload, at)
        lists.append(tuple(n for n in payload[at + 4 : at + 4 + width].decode("ascii", "replace").split(",") if n))
        at += 4 + width
    return Offer(kex=lists[0], host_keys=lists[1], ciphers=lists[2], macs=lists[4])
