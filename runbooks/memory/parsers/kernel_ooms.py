"""The kernel log's kills for memory, with whose memory ran out: a control group's limit, some NUMA nodes, or the machine. Bytes.

Linux writes one block for a kill, from "NAME invoked oom-killer" to "Killed process". From 4.19 on its "oom-kill:" line names the
constraint and both groups; before, "Task in /GROUP killed as a result of limit of /GROUP" does, and the last line does not say
which of the two it was. The ring buffer may have lost the beginning of a block, and a copy of the log its end. What is left of a
report without its kill is one as well: of a process that only "oom-kill:" or the oom_reaper (4.6 on) names, or that nothing names.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from runbooks.core.base import Frozen

WANTED = (
    r"invoked oom-killer|kill(?:ed)? process \d|oom-kill:|memory: usage \d|killed as a result of limit|memory\.oom\.group set"
    r"|oom_reaper: reaped process \d"
)
"""What to ask the kernel log for."""
MEMCG = "CONSTRAINT_MEMCG"
_KILLED = re.compile(
    r"(Memory cgroup out of memory: |Out of memory(?: \([\w ]+\))?: )?Killed process (\d+)"
    r"(?: \((.*?)\)|, UID \d+, \((.*?)\))(?=,? |$)(.*)"
)
_ASKED = re.compile(r"(?:.*(?:\] |: ))?(.*?) ?\binvoked oom-killer")
_BEFORE = re.compile(r"(Memory cgroup o|O)ut of memory: Kill process (\d+) \((.*?)\)")
_LINE = re.compile(r"oom-kill:constraint=(\w+)(?:.*?oom_memcg=([^,]*))?.*?task_memcg=([^,]*),task=(.*?),pid=(\d+)")
_OLD = re.compile(r"Task in (/\S*) killed as a result of limit of (/\S*)")
_WHOLE = re.compile(r"Tasks in (/\S*) are going to be killed due to memory\.oom\.group set")
_REAPED = re.compile(r"oom_reaper: reaped process (\d+) \((.*?)\)(?=,|$)")
_USAGE = re.compile(r"(?<![\w+])memory: usage (\d+)kB, limit (\d+)kB")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:(\d+)\s?kB")
_AT = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]")


class HostOom(Frozen):
    """A process that the kernel killed, or a report of memory that ran out whose kill was not read."""

    pid: int | None  # in the machine's own numbers; None: no line names whom it killed
    name: str
    rss: int  # 0: not told
    cgroup: bool  # a group's limit was reached
    told: bool = True  # whether the log says which of the two it was
    group: str = ""  # whose limit
    of: str = ""  # the group of the process
    used: int | None = None  # by the group, and its limit, at that moment
    limit: int | None = None
    numa: bool = False  # only the memory of some NUMA nodes was used up
    at: datetime | None = None
    asked: str = ""  # the process for which there was no memory; the kernel may kill another one


class _Block:
    """What the lines before a kill said."""

    def __init__(self) -> None:
        self.constraint = self.group = self.of = ""
        self.used: int | None = None
        self.limit: int | None = None
        self.memcg: dict[int, bool] = {}  # by the pid that was chosen
        self.chosen: int | None = None  # the last of them of which no kill was told yet
        self.asked = ""
        self.victim: tuple[int, str] | None = None  # whom a line before the kill names
        self.first: str | None = None  # the line it begins with
        self.over = False  # its kill was told

    def take(self, line: str) -> None:
        said = True
        if asked := _ASKED.match(line):
            self.asked = asked[1]
        elif usage := _USAGE.search(line):  # only a group's report has it
            self.used, self.limit = int(usage[1]) * 1024, int(usage[2]) * 1024
            self.constraint = self.constraint or MEMCG
        elif found := _LINE.search(line):
            self.constraint, self.group, self.of = MEMCG if found[2] else found[1], found[2] or "", found[3]
            self.victim = int(found[5]), found[4]
        elif old := _OLD.search(line):
            self.constraint, self.of, self.group = MEMCG, old[1], old[2]
        elif whole := _WHOLE.search(line):
            self.constraint, self.group = MEMCG, self.group or whole[1]
        elif before := _BEFORE.search(line):
            self.chosen = int(before[2])
            self.memcg[self.chosen] = before[1] != "O"
            self.victim = self.chosen, before[3]
        else:
            said = False
        if said and self.first is None:
            self.first = line

    def killed(self, pid: int) -> bool | None:
        """Whether a group's limit was reached; None: its lines do not say. Before Linux 5.3 a child could be killed for the chosen one."""
        told = self.memcg.get(pid, self.memcg.get(self.chosen) if self.chosen is not None else None)
        self.chosen = None
        return told


def parse_host_ooms(text: str | Iterable[str], zero: float | None = None) -> tuple[HostOom, ...]:
    """Every kill, in order, and each report without one. `zero`: Unix time at which the log's own clock was 0."""
    found: list[HostOom] = []
    block = _Block()
    for line in text.splitlines() if isinstance(text, str) else text:
        if "invoked oom-killer" in line:
            found += _left(block, zero)
            block = _Block()
        block.take(line)
        if killed := _KILLED.search(line):
            rss = sum(int(n) for n in _RESIDENT.findall(killed[5])) * 1024
            found.append(_kill(block, (int(killed[2]), killed[3] or killed[4] or ""), _when(line, zero), killed[1] or "", rss))
        elif (reaped := _REAPED.search(line)) and all(k.pid != int(reaped[1]) for k in found):
            found.append(_kill(_Block() if block.over else block, (int(reaped[1]), reaped[2]), _when(line, zero)))
    return (*found, *_left(block, zero))


def _left(block: _Block, zero: float | None) -> Iterator[HostOom]:
    """A report of which no line told the kill."""
    if block.first is not None and not block.over:
        yield _kill(block, block.victim, _when(block.first, zero))


def _kill(block: _Block, who: tuple[int, str] | None, at: datetime | None, prefix: str = "", rss: int = 0) -> HostOom:
    """One kill or report; `who`: pid and name, None: not told; `prefix`: what the kill's own line says of the limit."""
    block.over = True
    chosen = block.killed(who[0]) if who else None
    cgroup = prefix.startswith("Memory") or block.constraint == MEMCG or bool(chosen)
    return HostOom(
        pid=who[0] if who else None, name=who[1] if who else "", rss=rss, cgroup=cgroup,
        told=bool(prefix or block.constraint) or chosen is not None, group=block.group if cgroup else "", of=block.of,
        used=block.used if cgroup else None, limit=block.limit if cgroup else None, at=at, asked=block.asked,
        numa=not cgroup and block.constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"),
    )  # fmt: skip


def _when(line: str, zero: float | None) -> datetime | None:
    at = _AT.match(line)
    return datetime.fromtimestamp(zero + float(at[1]), UTC) if at and zero is not None else None
