"""Forms of lines in which a server refuses a caller, or a shell cannot run a command. What they mean is judged elsewhere. Pure."""

import re
from collections.abc import Iterable

_SHELL = re.compile(
    r"^(?:\S*/)?(?:ba|da|a|k|z)?sh: (?:(?:line )?\d+: )?\S.*: (?:(?:command )?not found|No such file or directory|Permission denied)$"
)
_NOT_ALLOWED = re.compile(r"(?i)(?<![\w.-])(?:401|403)(?![\w.-])|\bun-?authori[sz]ed\b|\bforbidden\b")  # RFC 9110, 15.5.2 and 15.5.4


def refusals(lines: Iterable[str]) -> list[str]:
    """Those with which an HTTP server says that the caller may not."""
    return [x for x in lines if _NOT_ALLOWED.search(x)]


def shell_refusals(lines: Iterable[str]) -> list[str]:
    """Those in which a shell says that it cannot run a command."""
    return [x.strip() for x in lines if _SHELL.match(x.strip())]
