"""Forms of lines and names in Ray's logs: an exception's line, a worker's file. What they mean is judged elsewhere. Pure."""

import re
from collections.abc import Iterable, Sequence

_EXCEPTION = re.compile(
    r"^\s*(?:\([^)]*\)\s*)?(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b:?"
)
_OF_WORKER = re.compile(  # log_monitor.py puts it before what a worker says; the address only where it is another node than the driver's
    r"^\((?:[\w.:<>]+ )?pid=(?P<pid>\d+)(?:, ip=(?P<ip>[^),\s]+))?[^)]*\)(?P<words>.*)"
)
_OF_SETUP = re.compile(r"/(?:runtime_env_setup-[^/]*\.log|raylet\.err)\Z")


def is_of_worker(line: str) -> bool:
    """Whether the line of a driver's log is what a worker said, with its pid before it."""
    return bool(_OF_WORKER.match(line))


def said_by(lines: Iterable[str], pid: int, ip: str, driver: str) -> tuple[str, ...]:
    """What a worker said, of the lines of a driver's log. `ip`: the worker's node; `driver`: that of the driver; "" where not known."""
    of = [(m, line) for line in lines if (m := _OF_WORKER.match(line)) and int(m["pid"]) == pid]
    return tuple(line for m, line in of if not ip or (m["ip"] or driver or ip) == ip)


def as_a_worker_said_it(line: str, lines: Iterable[str]) -> str:
    """The same words with a worker's pid before them, where the driver's log has them so too: the driver repeats what a worker said."""
    words = line.strip()
    return next((x for x in lines if words and (m := _OF_WORKER.match(x)) and m["words"].strip() == words), line)


def is_of_setup(path: str) -> bool:
    """Whether a log is that of what is set up before a worker begins: the raylet's own errors, and those of a job's environment."""
    return bool(_OF_SETUP.search(path))


def is_exception(line: str) -> bool:
    """Whether the line is one in which Python names an exception: `module.Name: words`, a Ray actor's prefix before it."""
    return bool(_EXCEPTION.match(line))


def worker_logs(pid: int, job_id: str, paths: Sequence[str]) -> list[str]:
    """The stderr files of a worker process: worker-<id>-<job>-<pid>.err. A worker that was started ahead of its job has ffffffff there."""
    job = f"(?:{re.escape(job_id)}|f+)" if job_id else "[0-9a-f]+"
    return [p for p in paths if re.search(rf"worker-[0-9a-f]+-{job}-{pid}\.err\Z", p)]
