"""The evidence of one node from the sides that the judges need: by process, by GPU, by job, over time."""

from dataclasses import dataclass
from functools import cached_property

from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSet
from runbooks.core.reading import Known
from runbooks.gpu.evidence import Earlier, EarlierProcess, Evidence, Facts, JobFacts, Process, ProgressMark
from runbooks.gpu.leader import LeaderView
from runbooks.gpu.limits import Limits

MIB = 1 << 20


def size(count: float) -> str:
    """Bytes for people: `8.5 GiB`."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / MIB:.0f} MiB"


def span(seconds: float) -> str:
    """Seconds for people: `6 s`, `12 min`, `3.4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Holding:
    """A process of this node that the driver's own table lists on a GPU."""

    gpu: Gpu
    listed: GpuProcess


@dataclass(frozen=True)
class GpuView:
    """Evidence and limits with the look-ups. Everything is derived; nothing is added."""

    evidence: Evidence
    limits: Limits

    @cached_property
    def facts(self) -> Facts | None:
        """The node's own facts, if read."""
        return self.evidence.facts.value if isinstance(self.evidence.facts, Known) else None

    @cached_property
    def gpu_set(self) -> GpuSet | None:
        """All GPUs, if read."""
        return self.evidence.gpus.value if isinstance(self.evidence.gpus, Known) else None

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """GPUs that answered."""
        return self.gpu_set.gpus if self.gpu_set else ()

    @cached_property
    def processes(self) -> dict[int, Process]:
        """Processes by pid."""
        known = self.evidence.processes
        return {p.pid: p for p in known.value} if isinstance(known, Known) else {}

    @cached_property
    def jobs(self) -> dict[str, JobFacts]:
        """Jobs of the fleet file by name."""
        return {j.name: j for j in self.evidence.jobs}

    @cached_property
    def leader(self) -> LeaderView | None:
        """The leader's view, if read."""
        return self.evidence.leader.value if isinstance(self.evidence.leader, Known) else None

    @cached_property
    def device_holders(self) -> tuple[int, ...] | None:
        """PIDs with a GPU device file open; None where not all could be seen."""
        known = self.evidence.device_holders
        return known.value if isinstance(known, Known) else None

    @cached_property
    def in_container(self) -> bool:
        """True also where it is not known: the careful reading."""
        return self.facts is None or self.facts.in_container

    @cached_property
    def earlier(self) -> Earlier | None:
        """The earlier reading, only if it is of this boot and before this reading."""
        known = self.evidence.earlier
        if not isinstance(known, Known) or self.facts is None or not self.facts.boot_id:
            return None
        gap = (self.evidence.taken_at - known.value.taken_at).total_seconds()
        same = known.value.boot_id == self.facts.boot_id and 0 < gap <= self.facts.uptime_s
        return known.value if same else None

    @cached_property
    def gap_s(self) -> float:
        """Seconds since the earlier reading; 0 where there is none."""
        return (self.evidence.taken_at - self.earlier.taken_at).total_seconds() if self.earlier else 0.0

    def before(self, process: Process) -> EarlierProcess | None:
        """The same process (pid, start, boot) at the earlier reading."""
        found = self.earlier.processes if self.earlier else ()
        return next((e for e in found if e.pid == process.pid and e.start_ticks == process.start_ticks), None)

    def is_local(self, listed: GpuProcess) -> Process | None:
        """The process of this PID namespace that the driver means; None if the number proves nothing here."""
        process = self.processes.get(listed.pid)
        if process is None or not self.in_container:
            return process
        seen = bool(process.nvidia_fds) or listed.pid in (self.device_holders or ())
        return process if seen else None  # the number may be the host's: another process altogether

    @cached_property
    def holdings(self) -> dict[int, tuple[Holding, ...]]:
        """GPUs by pid of the processes here that the driver lists."""
        found: dict[int, tuple[Holding, ...]] = {}
        for gpu in self.gpus:
            for listed in gpu.processes.value if isinstance(gpu.processes, Known) else ():
                if self.is_local(listed):
                    found[listed.pid] = (*found.get(listed.pid, ()), Holding(gpu, listed))
        return found

    def strangers(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Processes that the driver lists on it and that are not to be found here."""
        listed = gpu.processes.value if isinstance(gpu.processes, Known) else ()
        return tuple(g for g in listed if self.is_local(g) is None)

    def family_down(self, pid: int) -> tuple[Process, ...]:
        """Descendants among the processes that were read."""
        found: dict[int, Process] = {}
        todo = [pid]
        while todo:
            parent = todo.pop()
            for p in self.processes.values():
                if p.ppid == parent and p.pid not in found and p.pid != pid:
                    found[p.pid] = p
                    todo.append(p.pid)
        return tuple(found[k] for k in sorted(found))

    def ancestors(self, pid: int) -> tuple[int, ...]:
        """PIDs above it, as far as they were read."""
        found: list[int] = []
        at = self.processes.get(pid)
        while at is not None and at.ppid in self.processes and at.ppid not in found:
            found.append(at.ppid)
            at = self.processes[at.ppid]
        return tuple(found)

    def marks(self, job: str) -> tuple[ProgressMark, ...] | None:
        """Progress marks of a job; () if it has none configured, None if they could not be read."""
        facts = self.jobs.get(job)
        if facts is None or not facts.progress_configured:
            return ()
        known = self.evidence.progress
        found = tuple(m for m in known.value if m.job == job) if isinstance(known, Known) else ()
        return found or None

    def mark_before(self, mark: ProgressMark) -> ProgressMark | None:
        """The same mark at the earlier reading."""
        found = self.earlier.progress if self.earlier else ()
        return next((m for m in found if (m.job, m.kind, m.path) == (mark.job, mark.kind, mark.path)), None)

    def label(self, process: Process) -> str:
        """`pid 460 on GPU 0`."""
        held = sorted({h.gpu.index for h in self.holdings.get(process.pid, ())})
        where = f" on GPU {', '.join(map(str, held))}" if held else ""
        return f"pid {process.pid}{where}"

    def held_bytes(self, pid: int) -> int | None:
        """GPU bytes of that process; None where the driver does not say for one of its GPUs."""
        if pid not in self.holdings and self.processes[pid].nvidia_fds:
            return None
        values = [h.listed.used_bytes for h in self.holdings.get(pid, ())]
        known = [v for v in values if v is not None]
        return sum(known) if len(known) == len(values) else None
