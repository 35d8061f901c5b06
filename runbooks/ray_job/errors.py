"""Finds the first real error in logs: above Ray's generic guesses, without the lines that are known to be harmless."""

import re
from collections.abc import Iterable, Sequence

from runbooks.core.base import Frozen

HARMLESS = (
    r"[Ff]ailed to establish connection to the metrics exporter agent",
    r"metrics agent.*(unavailable|not available)",
    r"\[repeated \d+x across cluster\]\s*$",
    r"FutureWarning|DeprecationWarning|UserWarning",
)
GENERIC = (
    r"ray\.exceptions\.\w+",
    r"The actor (is dead|died)|The worker died unexpectedly|There are some potential root causes",
    r"\(1\) The (process|node) is killed|\(2\) |\(3\) ",
    r"Job entrypoint command failed|Traceback \(most recent call last\)|^During handling",
    r"raylet died|Worker unexpectedly exits",
    r"check (out )?(the )?(raylet|worker|gcs|dashboard).*logs?",
)
REAL = re.compile(
    r"^\s*(?:\([^)]*\)\s*)?((?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b:?.*"
    r"|.*\bCUDA out of memory\b.*|.*\bKilled process \d+.*|.*\bSegmentation fault\b.*|.*\bAborted\b.*"
    r"|.*\bNo space left on device\b.*|.*[Ww]atchdog caught collective operation timeout.*"
    r"|.*\bterminate called after\b.*)"
)
DRIVER = re.compile(r"^\((?P<actor>[\w.\[\]:<> -]+?)\s+pid=(?P<pid>\d+)(?:,\s*ip=(?P<ip>[0-9a-fA-F.:]+))?\)")


class Prefix(Frozen):
    """Whose line it is, as the driver's log shows it."""

    actor: str
    pid: int
    ip: str = ""


def is_harmless(line: str) -> bool:
    """True for a line that looks like an error and is none."""
    return any(re.search(p, line) for p in HARMLESS)


def first_error(lines: Iterable[str]) -> str:
    """The first line that names a real error, "" if there is none."""
    for line in lines:
        if is_harmless(line) or any(re.search(p, line) for p in GENERIC):
            continue
        found = REAL.search(line)
        if found:
            return line.strip()[:300]
    return ""


def prefix(line: str) -> Prefix | None:
    """`(SglEngine pid=514428, ip=10.0.0.2)` at the start of a driver's line."""
    found = DRIVER.match(line)
    return Prefix(actor=found["actor"], pid=int(found["pid"]), ip=found["ip"] or "") if found else None


def worker_log(pid: int, paths: Sequence[str]) -> str:
    """The stderr file of a worker process: worker-<id>-<job>-<pid>.err; "" if it is not among them."""
    found = [p for p in paths if re.search(rf"worker-[0-9a-f]+-[0-9a-f]+-{pid}\.err\Z", p)]
    return found[-1] if found else ""
