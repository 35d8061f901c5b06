"""Which processes are one job: by kin, launcher and rendezvous for sure; by session, cgroup and fleet file unless told apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from runbooks.gpu.benign import is_orphan
from runbooks.gpu.evidence import Process
from runbooks.gpu.spin import LAUNCHER
from runbooks.gpu.view import GpuView

IDENTITIES = (  # names of the environment that together name one run, the most telling first
    ("MASTER_ADDR", "MASTER_PORT"),
    ("JAX_COORDINATOR_ADDRESS",),
    ("PMIX_NAMESPACE",),
    ("PMI_JOBID",),
    ("RAY_JOB_ID",),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
)
WORLDS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
NO_LAUNCHER = re.compile(  # parents of many jobs: a bare shell, a session, an init, a server of notebooks, Ray's own daemon
    r"^-?(?:\S*/)?(?:(?:ba|da|z|k|fi)?sh(?:\s+-\w+)*|(?:tmux|screen|login|su|sudo|init|tini|dumb-init|docker-init|catatonit)\b.*)$|"
    r"\b(?:sshd|systemd|supervisord|crond?|containerd-shim\S*|conmon|jupyter\S*|code-server|raylet)\b"
)
MANY_JOBS = re.compile(r"user@\d+\.service$|\.slice$|session-\w+\.scope$")  # cgroups that hold whatever a person runs


@dataclass(frozen=True)
class Mate:
    """Another process of the same job, and what ties it."""

    process: Process
    tie: str
    sure: bool


@dataclass(frozen=True)
class Jobs:
    """The processes of a node by the job that they are a part of."""

    view: GpuView

    @cached_property
    def parties(self) -> dict[int, Process]:
        """Live processes that are part of some job: who is on a GPU, those of the fleet file's jobs, and what launched them."""
        mine = {p.pid: p for p in self.view.processes.values() if p.state not in "ZX" and self._takes_part(p)}
        above = (self.view.processes[a] for p in mine.values() for a in self.view.ancestors(p.pid))
        mine |= {q.pid: q for q in above if q.state not in "ZX" and LAUNCHER.search(q.command)}
        return {k: mine[k] for k in sorted(mine)}

    def _takes_part(self, p: Process) -> bool:
        """Also one whose GPU's table could not be read: its device files and its environment say it as well."""
        return bool(p.job or p.pid in self.view.holdings or p.nvidia_fds or any(named(p, names) for names in IDENTITIES))

    @cached_property
    def cells(self) -> tuple[frozenset[int], ...]:
        """Pids that are one job for sure."""
        found: list[set[int]] = []
        for p in self.parties.values():
            mine = [c for c in found if any(self._sure(p, self.parties[q]) for q in c)]
            found = [c for c in found if c not in mine] + [{p.pid}.union(*mine)]
        return tuple(frozenset(c) for c in found)

    def cell(self, pid: int) -> frozenset[int]:
        """Those that are one job with it for sure, itself among them."""
        return self._cell_of.get(pid, frozenset({pid}))

    @cached_property
    def _cell_of(self) -> dict[int, frozenset[int]]:
        return {pid: c for c in self.cells for pid in c}

    def mates(self, p: Process) -> tuple[Mate, ...]:
        """The other processes of its job, those that are sure first."""
        mine = self.cell(p.pid)
        sure = [self._mate(p, self.parties[q]) for q in sorted(mine - {p.pid})]
        near = self._near.get(mine, ())
        return (*sure, *(Mate(self.parties[q], words, False) for c, words in near for q in sorted(c)))

    def _mate(self, p: Process, q: Process) -> Mate:
        """One of its cell. What was not read of the environments might tell them apart, but not a process from what started it."""
        tie = self._sure(p, q)
        read = all(self.parties[x].run is not None for x in ((p.pid, q.pid) if tie else self.cell(p.pid)))
        return Mate(q, tie or "one job by their kin", read or self._kin(p, q))

    def around(self, one: frozenset[int]) -> tuple[frozenset[int], tuple[str, ...]]:
        """A cell with those that may be the same job, and what ties them."""
        near, first = self._near.get(one, ()), min(one)
        sure = (self._sure(self.parties[first], self.parties[q]) for q in sorted(one - {first})[:1])
        return one.union(*(c for c, _ in near)), tuple(dict.fromkeys(w for w in (*sure, *(words for _, words in near)) if w))

    @cached_property
    def _near(self) -> dict[frozenset[int], tuple[tuple[frozenset[int], str], ...]]:
        """Of each cell those that may be the same job, and why."""
        found: dict[frozenset[int], list[tuple[frozenset[int], str]]] = {c: [] for c in self.cells}
        for a, b in combinations(self.cells, 2):
            if words := self._between(a, b):
                found[a].append((b, words))
                found[b].append((a, words))
        return {c: tuple(near) for c, near in found.items()}

    @cached_property
    def _runs(self) -> dict[int, tuple[str, ...]]:
        """What names the run of each party, one text for each way of naming it."""
        return {pid: tuple(named(p, names) for names in IDENTITIES) for pid, p in self.parties.items()}

    def _same_run(self, p: Process, q: Process) -> bool | None:
        """Whether the environment of both names one run; None where it does not say."""
        return one_run(self._runs[p.pid], self._runs[q.pid])

    def world(self, p: Process) -> tuple[int, int]:
        """(ranks that its world has, ranks of it that are here); (0, 0) where its environment names none."""
        size = number(p, 1)
        here = {r for q in self.cell(p.pid) if q in self.parties and (r := number(self.parties[q], 0)) is not None}
        return (size, len(here)) if size else (0, 0)

    def _sure(self, p: Process, q: Process) -> str:
        """What makes them one job for sure, "" if nothing does."""
        if self._kin(p, q):
            return f"pid {min(p.pid, q.pid)} started it" if p.ppid == q.pid or q.ppid == p.pid else "one is the other's ancestor"
        same = self._same_run(p, q)
        if same is False or self.another_run(p, q):
            return ""
        if p.ppid == q.ppid and (LAUNCHER.search(self._parent(p)) or p.ppid in self.parties):
            return f"one launcher, pid {p.ppid}"
        return f"one run by its environment ({next(filter(None, (named(p, n) for n in IDENTITIES)))})" if same else ""

    def _kin(self, p: Process, q: Process) -> bool:
        """Whether one of them is the other's ancestor."""
        return p.pid in self.view.ancestors(q.pid) or q.pid in self.view.ancestors(p.pid)

    def unread(self, p: Process, q: Process) -> bool:
        """Whether the environment of `q`, which was not read, may name the run that that of `p` names."""
        apart = q.pid != p.pid and q.state not in "ZX" and not self._kin(p, q)
        return apart and q.run is None and any(named(p, names) for names in IDENTITIES)

    def _parent(self, p: Process) -> str:
        return p.parent_command or (self.view.processes[p.ppid].command if p.ppid in self.view.processes else "")

    def _between(self, mine: frozenset[int], other: frozenset[int]) -> str:
        """What ties two cells, "" if nothing does or any of their processes are told apart."""
        pairs = [(self.parties[p], self.parties[q]) for p in mine if p in self.parties for q in other]
        if any(self._same_run(p, q) is False or self.another_run(p, q) for p, q in pairs):
            return ""
        return next((words for p, q in pairs if (words := self._weak(p, q))), "")

    def _weak(self, p: Process, q: Process) -> str:
        place = [w for w in (self._starter(p, q), _session(p, q), _group(p, q)) if w]
        job = [f"both are job {p.job} of the fleet file"] if p.job and p.job == q.job else []
        together = abs(p.age_s - q.age_s) <= self.view.limits.together_s
        return ", ".join((*job, *place)) if (job and place) or ((job or place) and together) else ""

    def _starter(self, p: Process, q: Process) -> str:
        """One parent that may start other jobs as well."""
        one = p.ppid == q.ppid and p.ppid > 1 and not NO_LAUNCHER.search(self._parent(p))
        return f"one parent, pid {p.ppid}" if one else ""

    def another_run(self, p: Process, q: Process) -> bool:
        """One lost its parent, the other has it, and they did not start together: what a dead run left, and a new run.

        Nor can two processes be the same rank of one run.
        """
        apart = abs(p.age_s - q.age_s) > self.view.limits.together_s
        if apart and is_orphan(self.view, p) != is_orphan(self.view, q):
            return True
        ranks = (number(p, 0), number(q, 0))
        return apart and ranks[0] is not None and ranks[0] == ranks[1]


def one_run(mine: Sequence[str], other: Sequence[str]) -> bool | None:
    """Whether two processes are of one run; None where it does not say: of the names that both have, the first decides."""
    return next((a == b for a, b in zip(mine, other, strict=True) if a and b), None)


def named(p: Process, names: tuple[str, ...]) -> str:
    """`MASTER_ADDR=node-a MASTER_PORT=29500`; "" where one of them is not there or was not read."""
    values = [(p.run or {}).get(name, "") for name in names]
    return " ".join(f"{n}={v}" for n, v in zip(names, values, strict=True)) if all(values) else ""


def number(p: Process, which: int) -> int | None:
    """Its rank (0) or the size of its world (1), by its environment."""
    for names in WORLDS:
        text = (p.run or {}).get(names[which], "")
        if text.isdecimal():
            return int(text)
    return None


def _session(p: Process, q: Process) -> str:
    return f"one session, {p.sid}" if p.sid == q.sid and p.sid > 1 else ""


def _group(p: Process, q: Process) -> str:
    alike = p.cgroup == q.cgroup and p.cgroup not in ("", "/") and not MANY_JOBS.search(p.cgroup)
    return f"one cgroup, {p.cgroup}" if alike else ""
