"""Forms of lines and names in Ray's logs: an exception's line, a worker's file. What they mean is judged elsewhere. Pure."""

import re
from collections.abc import Sequence

_EXCEPTION = re.compile(
    r"^\s*(?:\([^)]*\)\s*)?(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b:?"
)


def is_exception(line: str) -> bool:
    """Whether the line is one in which Python names an exception: `module.Name: words`, a Ray actor's prefix before it."""
    return bool(_EXCEPTION.match(line))


def worker_log(pid: int, paths: Sequence[str]) -> str:
    """The stderr file of a worker process: worker-<id>-<job>-<pid>.err; "" if it is not among them."""
    found = [p for p in paths if re.search(rf"worker-[0-9a-f]+-[0-9a-f]+-{pid}\.err\Z", p)]
    return found[-1] if found else ""
