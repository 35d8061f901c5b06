"""Cuts a long log down to what matters: its beginning, its end, and what surrounds the lines that triage knows."""

import io

from runbooks.triage.judge import probes_of
from runbooks.triage.load import library
from runbooks.triage.scan import Scanner
from runbooks.triage.sources import stream_blocks
from runbooks.triage.unpack import SourceError

AROUND = 30  # lines kept on either side of a line that a signature or a failure word matches
ENDS = 150  # lines kept at the beginning and at the end


def matching_lines(text: str) -> set[int]:
    """Numbers (from 1) of the first and last lines that each signature or failure word matches."""
    probes = probes_of(library())
    scanner = Scanner(probes.values())
    try:
        for block in stream_blocks(io.BytesIO(text.encode("utf-8", "replace")), "log"):
            scanner.feed(block)
    except SourceError:
        return set()
    scanner.finish()
    return {
        hit.line.number for p in probes.values() if not p.context or p.pattern in library().failure for hit in p.hits
    }


def windows(text: str, small: int) -> str:
    """`text` whole where it is at most `small` characters; else its windows, with a line for what was left out."""
    if len(text) <= small:
        return text
    lines = text.splitlines()
    kept = {*range(min(ENDS, len(lines))), *range(max(len(lines) - ENDS, 0), len(lines))}
    for number in matching_lines(text):
        kept.update(range(max(number - 1 - AROUND, 0), min(number + AROUND, len(lines))))
    out: list[str] = []
    last = -1
    for at in sorted(kept):
        if at > last + 1:
            out.append(f"[… {at - last - 1} lines left out …]")
        out.append(lines[at])
        last = at
    return "\n".join(out) + "\n"
