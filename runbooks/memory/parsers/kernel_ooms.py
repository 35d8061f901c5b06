"""The kernel log's kills for memory, with whose memory ran out: a control group's limit, some NUMA nodes, or the machine. Bytes.

Linux writes one block for a kill, from "NAME invoked oom-killer" to "Killed process". From 4.19 on its "oom-kill:" line names the
constraint and both groups; before, "Task in /GROUP killed as a result of limit of /GROUP" does, and the last line does not say
which of the two it was. The ring buffer may have lost the beginning of a block.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from runbooks.core.base import Frozen

WANTED = r"invoked oom-killer|kill(?:ed)? process \d|oom-kill:|memory: usage \d|killed as a result of limit|memory\.oom\.group set"
"""What to ask the kernel log for."""
_KILLED = re.compile(
    r"(Memory cgroup out of memory: |Out of memory(?: \([\w ]+\))?: )?Killed process (\d+)"
    r"(?: \((.*?)\)|, UID \d+, \((.*?)\))(?=,? |$)(.*)"
)
_BEFORE = re.compile(r"(Memory cgroup o|O)ut of memory: Kill process (\d+) \(")
_LINE = re.compile(r"oom-kill:constraint=(\w+)(?:.*?oom_memcg=([^,]*))?.*?task_memcg=([^,]*),task=.*?,pid=(\d+)")
_OLD = re.compile(r"Task in (/\S*) killed as a result of limit of (/\S*)")
_USAGE = re.compile(r"(?<![\w+])memory: usage (\d+)kB, limit (\d+)kB")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:(\d+)\s?kB")
_AT = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]")


class HostOom(Frozen):
    """A process that the kernel killed."""

    pid: int  # in the machine's own numbers
    name: str
    rss: int
    cgroup: bool  # a group's limit was reached
    told: bool = True  # whether the log says which of the two it was
    group: str = ""  # whose limit
    of: str = ""  # the group of the process
    used: int | None = None  # by the group, and its limit, at that moment
    limit: int | None = None
    numa: bool = False  # only the memory of some NUMA nodes was used up
    at: datetime | None = None


class _Block:
    """What the lines before a kill said."""

    def __init__(self) -> None:
        self.constraint = self.group = self.of = ""
        self.used: int | None = None
        self.limit: int | None = None
        self.memcg: dict[int, bool] = {}  # by the pid that was chosen
        self.chosen: int | None = None  # the last of them of which no kill was told yet

    def take(self, line: str) -> None:
        if usage := _USAGE.search(line):
            self.used, self.limit = int(usage[1]) * 1024, int(usage[2]) * 1024
        elif found := _LINE.search(line):
            self.constraint, self.group, self.of = found[1], found[2] or "", found[3]
        elif old := _OLD.search(line):
            self.constraint, self.of, self.group = "CONSTRAINT_MEMCG", old[1], old[2]
        elif before := _BEFORE.search(line):
            self.chosen = int(before[2])
            self.memcg[self.chosen] = before[1] != "O"

    def killed(self, pid: int) -> bool | None:
        """Whether a group's limit was reached; None: its lines do not say. Before Linux 5.3 a child could be killed for the chosen one."""
        told = self.memcg.get(pid, self.memcg.get(self.chosen) if self.chosen is not None else None)
        self.chosen = None
        return told


def parse_host_ooms(text: str | Iterable[str], zero: float | None = None) -> tuple[HostOom, ...]:
    """Every kill, in order. `zero`: Unix time at which the log's own clock was 0."""
    found, block = [], _Block()
    for line in text.splitlines() if isinstance(text, str) else text:
        if "invoked oom-killer" in line:
            block = _Block()
        block.take(line)
        if killed := _KILLED.search(line):
            found.append(_kill(killed, block, _when(line, zero)))
    return tuple(found)


def _kill(killed: "re.Match[str]", block: _Block, at: datetime | None) -> HostOom:
    pid = int(killed[2])
    chosen = block.killed(pid)
    cgroup = (killed[1] or "").startswith("Memory") or block.constraint == "CONSTRAINT_MEMCG" or bool(chosen)
    told = bool(killed[1] or block.constraint) or chosen is not None
    return HostOom(
        pid=pid, name=killed[3] or killed[4] or "", rss=sum(int(n) for n in _RESIDENT.findall(killed[5])) * 1024, cgroup=cgroup,
        told=told, group=block.group if cgroup else "", of=block.of, used=block.used if cgroup else None,
        limit=block.limit if cgroup else None, at=at,
        numa=not cgroup and block.constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"),
    )  # fmt: skip


def _when(line: str, zero: float | None) -> datetime | None:
    at = _AT.match(line)
    return datetime.fromtimestamp(zero + float(at[1]), UTC) if at and zero is not None else None
