"""The plain slow way to find patterns: every one tried on every line. What the fast way is held to."""

import random
import re
from collections import deque
from collections.abc import Iterable, Sequence

from runbooks.triage.block import Block
from runbooks.triage.judge import probes_of
from runbooks.triage.load import library
from runbooks.triage.plain import plain
from runbooks.triage.probe import KEEP, Raw
from runbooks.triage.scan import Scanner

Found = dict[str, tuple[list[int], bool]]  # for each pattern the lines kept, and whether it stands anywhere


def slowly(blocks: Iterable[Block]) -> Found:
    """First and last lines of every pattern."""
    probes = probes_of(library())
    first: dict[str, list[int]] = {p: [] for p in probes}
    last: dict[str, deque[int]] = {p: deque(maxlen=KEEP) for p in probes}
    order, before = 0, ("", b"")
    for block in blocks:
        lines = plain(block.data).split(b"\n")
        for at, line in enumerate(lines):
            above = lines[at - 1] if at else before[1] if before[0] == block.file else b""
            raw = Raw(block.file, block.first + at, order + at, line, above)
            for pattern in [p for p, probe in probes.items() if (hit := probe.hit(raw)) and probe.keeps(hit)]:
                (first[pattern] if len(first[pattern]) < KEEP else last[pattern]).append(raw.order)
        order, before = order + len(lines), (block.file, lines[-1])
    return {p: ([*first[p], *last[p]], bool(first[p]) or probes[p].found) for p in probes}


def fast(blocks: Iterable[Block]) -> Found:
    """The same by the scanner."""
    probes = probes_of(library())
    scanner = Scanner(probes.values())
    for block in blocks:
        scanner.feed(block)
    scanner.finish()
    return {p: ([h.line.order for h in probe.hits], probe.found) for p, probe in probes.items()}


def cut(lines: Sequence[str], each: int) -> list[Block]:
    """As blocks of so many lines."""
    return [
        Block(file="x", first=at + 1, data="\n".join(lines[at : at + each]).encode())
        for at in range(0, len(lines), each)
    ]


def told() -> list[str]:
    """Every line of every example and counter-example of the knowledge."""
    signatures = [s for k in library().causes for s in k.cause.signatures]
    return [x for s in signatures for text in (s.example, s.counter_example) for x in text.split("\n")]


def altered(line: str, rng: random.Random) -> str:
    """As other programs and terminals would write it."""
    at = rng.randrange(len(line) + 1)
    digits = re.sub(r"\d", lambda _: str(rng.randrange(10)), line)
    return rng.choice(
        (
            f"[rank{rng.randrange(9)}]: {line}",
            f"2026-01-01 10:00:00,{rng.randrange(999):03} {line}",
            f"(Worker pid={rng.randrange(99)}, ip=10.0.0.1) {line}",
            digits,
            line.replace("a", "\u00e1", rng.randrange(2)).replace(" ", "\u00a0", 1),
            f"{line[:at]}\u00e9{line[at:]}",
            "x" * rng.choice((1990, 3990, 5000)) + line + "y" * rng.choice((10, 6000)),
            f"{line}\r",
            f"{line} [repeated 3x across cluster]",
            f"{line} This might be caused by {rng.choice(told())}",
            f'  File "/a/b.py", line {rng.randrange(99)}, in f\n    {line}',
        )
    )
