"""The key that a job's log ends at, and whether the code that asked for it reads data, by the names in its traceback. Pure."""

import re
from typing import NamedTuple

_KEY = re.compile(r"""^\s*(?:\[?\w+\]?:?\s+)?KeyError: (['"])(?P<key>[^'"]{1,200})\1\s*$""")
_FRAME = re.compile(r"""^.*\bFile "(?P<file>[^"]+)", line \d+, in (?P<name>\S+)""")
_OF_DATA = re.compile(r"(?i)data|jsonl?\b|collat|preprocess|tokeni[sz]|records?\b|examples?\b|samples?\b")
FRAMES = 3  # innermost ones that are looked at
NEAR = 12  # lines of a traceback above its error: each frame has a line of code and perhaps one of marks


class Lacking(NamedTuple):
    """A key that a program asked for in vain."""

    key: str
    line: str
    of_data: bool  # a frame near the error is of code that reads data, by its file's or its function's name
    elsewhere: bool  # frames are there, and none of them is


def lacking_key(log: str) -> Lacking | None:
    """By the last KeyError of the log; None where there is none."""
    lines = log.splitlines()
    for i in range(len(lines) - 1, -1, -1):
        if found := _KEY.match(lines[i]):
            frames = [m for m in map(_FRAME.match, lines[max(0, i - NEAR) : i]) if m][-FRAMES:]
            named = any(_OF_DATA.search(m["file"].rpartition("/")[2]) or _OF_DATA.search(m["name"]) for m in frames)
            return Lacking(key=found["key"], line=lines[i].strip(), of_data=named, elsewhere=bool(frames) and not named)
    return None


def plain(key: str) -> str:
    """Letters and digits of a key, in small letters: `TEXT` and `text_` are alike by them."""
    return re.sub(r"[\W_]", "", key).lower()
