"""What a file of a folder or archive can say: output says what happened, source code does not, and of settings not the comments."""

import re
from pathlib import PurePosixPath

from runbooks.core.base import Frozen

_CODE = re.compile(
    r"\.(?:py[ix]?|cc?|cpp|cxx|cuh?|hh?|hpp|go|rs|java|kt|scala|m?js|tsx?|css|html?|rb|p[lm]|lua|php|cs|swift|proto|cmake"
    r"|ipynb|xs[ld]|dtd|pot?|el|vim|m4|awk)"
)
_OUTPUT = frozenset(
    (".log", ".txt", ".out", ".err", ".md", ".rst", ".csv", ".json", ".jsonl", ".ndjson", ".gz", ".zst")
)
_RULE = re.compile(rb"(?m)^[ \t]*- alert:[ \t]*\w+[ \t]*$")
_TOLD = re.compile(rb"(?m)^[ \t]+(?:summary|description|message|runbook|dashboard)\w*:.*$")
_COMMENT = re.compile(rb"(?m)^[ \t]*(?:#|;|//).*$")


class Block(Frozen):
    """Whole lines of one file, UTF-8, `\n` between them."""

    file: str
    first: int  # number of its first line
    data: bytes


def is_code(name: str) -> bool:
    """Whether the name is that of source code or of a page: it holds the words of faults that have not happened."""
    return bool(_CODE.fullmatch(PurePosixPath(name).suffix.lower()))


def without_comments(block: Block) -> Block:
    """The block of a settings file or script without its comment lines (numbers of lines stay); of output as it is."""
    kind = PurePosixPath(block.file).suffix.lower()
    if kind in _OUTPUT or re.fullmatch(r"\.\d+", kind):
        return block
    return block.model_copy(update={"data": _COMMENT.sub(b"", block.data)})


def without_rules(block: Block) -> Block:
    """The block without the texts that its alerts' rules would tell (numbers of lines stay): nothing of it has happened."""
    if b"- alert:" in block.data and b"expr:" in block.data and _RULE.search(block.data):
        return block.model_copy(update={"data": _TOLD.sub(b"", block.data)})
    return block


def unread_code(count: int) -> str:
    """What is told about files that were passed over."""
    return f"{count} file{'s' if count > 1 else ''} of source code not read: no evidence of what happened (name one to have it read)"
