"""Measures prose: its sentences, their length, and words that only insiders use."""

import re
from collections.abc import Iterable, Iterator

LONGEST = 25  # words of a sentence
PRIVATE = {  # pattern: what an on-call engineer says instead
    r"put(?:s|ting)? (?:\w+ ){0,2}right": "fix",
    r"(?:is|are|was|were) no more": "is gone",
    r"(?:is|are|was|were|be|been|being) (?:\w+ )?told": "is reported",
    r"(?:is|are|was|were|be|been|being) (?:\w+ )?said": "is shown, is reported",
    r"begun": "started",
    r"anew|afresh": "again",
    r"in the midst of": "during",
    r"for ever": "forever",
    r"rather \w+s (?:\w+ ){0,3}than": "prefers X to Y",
    r"begins? with|goes on|go on": "starts with, continues",
}
WORDS = {re.compile(rf"(?i)\b(?:{pattern})\b"): better for pattern, better in PRIVATE.items()}
FENCE = re.compile(r"^ {0,3}(`{3,})[^\n]*\n.*?^ {0,3}\1$", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.S)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
MARK = re.compile(r"^(?:[-*+]|\d+\.|#+|>)\s+")
END = re.compile(r"(?<=[.!?])[\"”’)*_]*\s+(?=[“\"]\w|[(*_]*[A-Z0-9_…])")


def blocks(page: str) -> Iterator[str]:
    """The paragraphs, headings, list items and table cells of a Markdown page, each on one line; code is the word `Code`."""
    page = COMMENT.sub("", FENCE.sub("", page))
    page = LINK.sub(r"\1", CODE.sub("Code", page))
    block: list[str] = []
    for line in [*page.splitlines(), ""]:
        text = line.strip()
        if not text or MARK.match(text) or text.startswith("|"):
            if block:
                yield " ".join(block)
            block = []
        if text.startswith("|"):
            yield from (c.strip() for c in text.strip("|").split("|") if re.search(r"\w", c))
        elif text and not (line.startswith("    ") and not block):
            block.append(MARK.sub("", text))


def sentences(text: str) -> Iterator[str]:
    """Sentences of one block."""
    yield from (s.strip() for s in END.split(text) if s.strip())


def length(sentence: str) -> int:
    """Its words; a number and a piece of code count as one each."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def faults(texts: Iterable[str]) -> list[str]:
    """Each sentence that is too long, and each private word, with what is wrong."""
    found = []
    for text in texts:
        for sentence in sentences(text):
            if length(sentence) > LONGEST:
                found.append(f"{length(sentence)} words: {sentence}")
            found += [f"{m[0]!r}, better {better!r}: {sentence}" for p, better in WORDS.items() if (m := p.search(sentence))]
    return found
