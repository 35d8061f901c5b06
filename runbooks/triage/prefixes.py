"""What stands before the message of a log line: rank, actor, time."""

import re

_SPACE = r"\t\r\f\v "  # never a line's end: the same patterns are used on whole blocks
_RANK = re.compile(rf"\[?(?:rank[{_SPACE}]?|Rank )(\d+)\]?:[{_SPACE}]?|\[(\d+)\]:[{_SPACE}]")
_ACTOR = re.compile(
    r"\((?:(?P<name>[\w.:+-]+(?:\[[^\]\n]*\])?) )?(?:pid=(?P<pid>\d+))(?:, ip=(?P<ip>[\d.a-f:]+))?\)" + f"[{_SPACE}]?"
)
_TIME = re.compile(
    r"(?:\[?\d{4}[-/]\d\d[-/]\d\d[T _,]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [\w.-]+)?)(?!\w)" + f"[{_SPACE}:|-]*"
)
PREFIXES = re.compile(  # all that stands before a message, at the beginning of every line of a block
    b"(?m)^(?:%b){1,4}" % "|".join(p.pattern for p in (_ACTOR, _RANK, _TIME)).encode()
)
