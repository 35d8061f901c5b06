"""Sentences that a person's editor or mailer broke over several lines, as one line each beside the lines as they are."""

import re
from collections.abc import Iterator

from runbooks.triage.block import Block

MOST = 65536  # bytes of a text in which a person may have written; more is a log
SHORTEST = 50  # characters of a line that was broken because it was full
FEWEST = 6  # words in a line of prose
LONGEST = 6  # lines that one paragraph may have
_PROSE = re.compile(
    rb"(?![\w./-]{1,30}(?:\[\d+\])?: |[A-Z][a-z]{2} [ \d]\d \d\d:|[^\n]*(?:\S {3}|\.{4}))(?:[-*#>] )?[A-Za-z\"'`(][^\t|={}]*"
)
_WORD = re.compile(rb"[A-Za-z][a-z']*[a-z,;:]?(?= |$)")
_ENDED = re.compile(rb"[.!?:;]$")
_BETWEEN = re.compile(rb"(?<=[.!?:]) +(?=[A-Z\"'(`])")
_ITEM = (b"- ", b"* ", b"> ")


def sentences(block: Block) -> Iterator[Block]:
    """Of a small block each sentence that goes over a line's end, under the number of its first line."""
    if len(block.data) <= MOST:
        yield from (Block(file=block.file, first=n, data=text) for n, text in _over_line_ends(block))


def _over_line_ends(block: Block) -> Iterator[tuple[int, bytes]]:
    held: list[tuple[int, bytes]] = []
    for number, line in enumerate([*block.data.split(b"\n"), b""], block.first):
        text = line.strip()
        if held and (_is_last(held) or not _goes_on(text)):
            yield from _broken(held)
            held = []
        if held or _is_prose(text):
            held.append((number, text.removeprefix(b"# ")))


def _is_prose(text: bytes) -> bool:
    return len(text) >= SHORTEST and bool(_PROSE.fullmatch(text)) and len(_WORD.findall(text)) >= FEWEST


def _is_last(held: list[tuple[int, bytes]]) -> bool:
    """Whether the paragraph cannot go on behind the lines that it has."""
    text = held[-1][1]
    return len(held) == LONGEST or len(text) < SHORTEST or bool(_ENDED.search(text))


def _goes_on(text: bytes) -> bool:
    """Whether the line may go on a sentence; the last line of a paragraph is short."""
    words = len(_WORD.findall(text))
    return bool(_PROSE.fullmatch(text)) and text[:2] not in _ITEM and words * 2 >= len(text.split())


def _broken(held: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Sentences that begin in one of the lines and end in a later one."""
    number, text, lines = 0, b"", 0
    for at, line in held:
        head, *others = _BETWEEN.split(line)
        number, text, lines = (number, text + b" " + head, lines + 1) if lines else (at, head, 1)
        for part in others:
            if lines > 1:
                yield number, text
            number, text, lines = at, part, 1
    if lines > 1:
        yield number, text
