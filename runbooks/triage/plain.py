"""Takes out of a block what no pattern looks at and what costs time: escapes of a terminal, encoded data, the middle of endless lines."""

import re

from runbooks.triage.probe import PLAIN

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_WHOLE = re.compile(rb"^([A-Za-z0-9+/]{24})[A-Za-z0-9+/]{36,}={0,2}$", re.MULTILINE)
_PART = re.compile(rb"([A-Za-z0-9+/]{24})[A-Za-z0-9+/]{104,}={0,2}")
_CODED = bytes(97 if chr(c).isascii() and (chr(c).isalnum() or c in b"+/") else c for c in range(256))
SHORTEST = b"a" * 60  # a run of letters, digits, + and / that is looked at more closely
LONGEST = 2 * PLAIN  # bytes of a line of which every pattern sees the ends only


def plain(raw: bytes) -> bytes:
    """The block with as many lines as before."""
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", raw)
    if SHORTEST in raw.translate(_CODED):
        raw = _PART.sub(rb"\1...", _WHOLE.sub(rb"\1...", raw))
    lines = raw.split(b"\n")
    if max(map(len, lines)) > LONGEST:
        raw = b"\n".join(line if len(line) <= LONGEST else _ends(line) for line in lines)
    return raw


def _ends(line: bytes) -> bytes:
    return line[:PLAIN] + b" ... " + line[-PLAIN:]
