"""Whether a line names a process by its number. Pure."""

import re


def names_pid(line: str, pid: int) -> bool:
    """Whether the line has that number as a pid: "(pid 629)", "pid: 629", "PID=629"."""
    return re.search(rf"(?i)\bpid\W{{1,3}}{pid}\b", line) is not None
