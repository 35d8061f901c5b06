"""Forms of lines and names in Ray's logs: an exception's line, a worker's file. What they mean is judged elsewhere. Pure."""

import re
from collections.abc import Sequence

_EXCEPTION = re.compile(
    r"^\s*(?:\([^)]*\)\s*)?(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b:?"
)
_OF_WORKER = re.compile(r"^\((?:[\w.:<>]+ )?pid=\d+[^)]*\)")  # log_monitor.py puts it before what a worker says


def is_of_worker(line: str) -> bool:
    """Whether the line of a driver's log is what a worker said, with its pid before it."""
    return bool(_OF_WORKER.match(line))


def is_exception(line: str) -> bool:
    """Whether the line is one in which Python names an exception: `module.Name: words`, a Ray actor's prefix before it."""
    return bool(_EXCEPTION.match(line))


def worker_logs(pid: int, job_id: str, paths: Sequence[str]) -> list[str]:
    """The stderr files of a worker process: worker-<id>-<job>-<pid>.err. A worker that was started ahead of its job has ffffffff there."""
    job = f"(?:{re.escape(job_id)}|f+)" if job_id else "[0-9a-f]+"
    return [p for p in paths if re.search(rf"worker-[0-9a-f]+-{job}-{pid}\.err\Z", p)]
