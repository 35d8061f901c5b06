"""A pattern as a fast test on the bytes of a line. Its yes may be wrong; its no never is."""

import re
from functools import lru_cache

PLAIN = 4000  # longer lines keep only their ends before they are matched: no quick answer for them
_IDLE = re.compile(
    r"\\[swd]\*|\(\?:[^()|\\\[\]]*\)\?|\.\*"
)  # at the beginning of what is searched for: matches nothing as well
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


@lru_cache(maxsize=8192)
def quick(pattern: str) -> "tuple[re.Pattern[bytes], bool] | None":
    """The test, and whether it wants the line in lower case; None where there is no safe one.

    `^` is taken out: a message is the end of its line, so what matches at its start matches somewhere in the line.
    """
    if re.search(r"\\[AZ1-9]|[^\x00-\x7f]|\(\?P=|\(\?\(", pattern) or (
        "^" in pattern and re.search(r"\(\?<?!", pattern)
    ):
        return None
    lower = pattern.startswith("(?i)")
    parts = [p for p in _PARTS.findall(pattern.removeprefix("(?i)")) if p != "^"]
    text = "".join(_lowered(p) for p in parts) if lower else "".join(parts)
    while found := _IDLE.match(text):
        text = text[found.end() :]
    try:
        return re.compile(text.replace("(?p<", "(?P<").encode()), lower
    except re.error:
        return None


def _lowered(part: str) -> str:
    return "".join(p if p.startswith("\\") else p.lower() for p in re.findall(r"\\.|.", part, re.DOTALL))
