"""Judged together: while one of a job is at work, those that wait for it are benign, and no plan touches any of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from runbooks.core.members import container, node, process
from runbooks.core.verdict import Certainty, Group
from runbooks.gpu.activity import Activity, Sign, activity
from runbooks.gpu.benign import starting
from runbooks.gpu.elsewhere import of_one_run, run_names, unread
from runbooks.gpu.evidence import Process
from runbooks.gpu.mates import Jobs
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView

IDLE = ("idle-process", "orphan-idle")
WAITS = (*IDLE, "collective-spin", "device-spin")  # how waiting for a mate looks
AWAITED = ("waiting-for-work", "warming-up", "debugged", "suspended-on-purpose", "waits-for-storage", "writing-checkpoint")
WAITING_KINDS = ("inference", "interactive")


class Work(IntEnum):
    """How far a process that works explains that its mates wait."""

    NONE = 0
    UNREAD = 1  # nothing that was read of it moved, and not all was read
    STIRS = 2  # a thread of it stirs (telemetry, heartbeats): a hung rank does that too
    COMPUTES = 3  # it uses the CPU and nothing else: data that it prepares, or a loop
    WORKS = 4  # bytes move, kernels run, a file grows; or it waits for a person, a debugger, its storage


class Busy(NamedTuple):
    """A mate, and how far it is at work."""

    level: Work
    sure: bool  # that it is of the same job
    pid: int
    who: str
    does: str
    tie: str  # what makes them one job


@dataclass(frozen=True)
class Company:
    """Every process with its own verdict, and its job around it."""

    view: GpuView
    alone: dict[int, GpuVerdict | None]  # each subject as if there were no other
    elsewhere: tuple["Company", ...] = ()  # the fleet's other nodes on which ranks of the same runs may be

    @cached_property
    def jobs(self) -> Jobs:
        """Who belongs together."""
        return Jobs(self.view)

    def judged(self, p: Process) -> GpuVerdict | None:
        """Its verdict with its mates in sight."""
        own = self.alone.get(p.pid)
        if own is None or own.slug not in WAITS or p.pid not in self.jobs.parties:
            return own
        most = max((*self._near(p), *self._far(p)), key=lambda b: (b.level, b.sure, -b.pid), default=None)
        own = own if most and most.level is Work.WORKS else self._unseen(own, p)
        return own if most is None or most.level is Work.NONE else self._beside(own, most)

    def _unseen(self, own: GpuVerdict, p: Process) -> GpuVerdict:
        """Nobody of its job was seen at work; it may be one on a node that could not be read, or one whose run was not read."""
        size, here = self.jobs.world(p)
        nodes = ", ".join(unread(self.view.evidence)) if size > here else ""
        asks = [f"whether a mate of its run is at work on {nodes}. Its world has {size} ranks, {here} of them here"] if nodes else []
        asks += ["whether it is a rank of a run with mates at work: its environment could not be read"] if p.run is None else []
        asks += [f"whether {who} is a mate that keeps it waiting: its environment could not be read" for who in self._nameless(p)]
        return replace(own, certainty=Certainty.POSSIBLE, decides=(*asks, *own.decides)) if asks else own

    def _nameless(self, p: Process) -> Iterator[str]:
        """Others that may be at work and of its run, which was not read of them; none where all ranks of its world are here."""
        size, here = self.jobs.world(p)
        if size and size <= here:
            return
        mates = {p.pid, *(m.process.pid for m in self.jobs.mates(p))}
        for q in self.view.processes.values():
            if q.pid not in mates and self.jobs.unread(p, q) and self._work(q) is not Work.NONE:
                yield f"pid {q.pid}"
        for there in self.elsewhere if any(run_names(p)) else ():
            for q in there.view.processes.values():
                if q.run is None and q.state not in "ZX" and there._work(q) is not Work.NONE:
                    yield f"pid {q.pid} on {there.view.evidence.node}"

    def _near(self, p: Process) -> Iterator[Busy]:
        """Its mates here."""
        for m in self.jobs.mates(p):
            q = m.process
            yield Busy(self.works[q.pid], m.sure, q.pid, f"{self.view.label(q)} of its job", self.words(q), m.tie)

    def _far(self, p: Process) -> Iterator[Busy]:
        """Its mates on other nodes: nothing but the environment ties them."""
        for there in self.elsewhere:
            for q in there.jobs.parties.values():
                if tie := of_one_run(p, q):
                    who = f"pid {q.pid} on {there.view.evidence.node}, of its job,"
                    does = next(iter(activity(there.view, q).moves), "") or there.words(q)
                    yield Busy(there.works[q.pid], True, q.pid, who, does, f"one run by its environment, {tie}")

    def _beside(self, own: GpuVerdict, mate: Busy) -> GpuVerdict:
        words = f"{mate.who} is at work: {mate.does}. What makes them one job: {mate.tie}"
        if mate.level is Work.WORKS:
            sure = Certainty.CONFIRMED if mate.sure else Certainty.LIKELY
            asks = () if mate.sure else (f"whether pid {mate.pid} is of the same job: its launcher and its environment",)
            return GpuVerdict(
                "waits-for-its-mate", sure, own.subject, (words, *own.evidence), asks, benign=True, pids=own.pids, gpus=own.gpus
            )
        if mate.level is Work.UNREAD:
            words = f"whether {mate.who} is at work could not be read. What makes them one job: {mate.tie}"
        most = Certainty.POSSIBLE if mate.level is Work.COMPUTES else Certainty.LIKELY
        ranks = list(Certainty)
        capped = max(own.certainty, most, key=ranks.index)
        asks = (f"what pid {mate.pid} does, for which the others may wait: `py-spy dump --pid {mate.pid}`",)
        return replace(own, certainty=capped, evidence=(*own.evidence, words), decides=(*asks, *own.decides))

    @cached_property
    def works(self) -> dict[int, Work]:
        """How far each is at work, by pid."""
        return {pid: self._work(q) for pid, q in self.jobs.parties.items()}

    def _work(self, q: Process) -> Work:
        """How far it is at work by itself. One that only waits in a collective, or looks dead, is not."""
        own = self.alone.get(q.pid)
        seen = activity(self.view, q)
        if own is not None and not own.benign:
            return Work.UNREAD if seen.unread and own.slug in IDLE else Work.NONE
        job = self.view.jobs.get(q.job)
        young = own is not None and starting(self.view, q) is not None
        if own is not None and (young or own.slug in AWAITED or (job is not None and job.kind in WAITING_KINDS)):
            return Work.WORKS
        return self._moves(q, seen, launcher=own is None)

    def _moves(self, q: Process, seen: Activity, launcher: bool) -> Work:
        """A launcher's children are its ranks, which are judged themselves, and progress is the whole job's."""
        limits, window = self.view.limits, self.view.evidence.window_s or 1.0
        others = {Sign.CHILDREN, Sign.PROGRESS, Sign.GPU} if launcher else set[Sign]()
        signs = seen.signs - others
        rate = max(q.io_window_bytes or 0, q.sockets_moved_bytes or 0, 0 if launcher else q.children_io_window_bytes) / window
        loads = 0.0 if launcher else q.children_cpu_window_s
        cpu = 100 * max(q.cpu_window_s or 0.0, loads) / window
        if signs & {Sign.GPU, Sign.PROGRESS} or (signs and rate > limits.working_bytes_per_s):
            return Work.WORKS
        if signs & {Sign.CPU, Sign.CHILDREN} and cpu >= limits.computing_cpu_percent:
            return Work.COMPUTES
        if signs and not launcher:  # a launcher looks after its ranks all the time
            return Work.STIRS
        return Work.UNREAD if seen.unknown - others else Work.NONE

    def words(self, q: Process) -> str:
        """What it does, with the number."""
        own = self.alone.get(q.pid)
        return own.evidence[0] if own is not None else next(iter(activity(self.view, q).moves), "it is up")

    def groups(self) -> tuple[Group, ...]:
        """Every job with more than one process or somebody at work, as the engine's rule needs it."""
        return (*(self._group(c) for c in self.jobs.cells), self._count())

    def _count(self) -> Group:
        """The node as its leader counts it: whoever is at work for a job or on a GPU is counted."""
        counted = [q for q in self.jobs.parties.values() if q.job or q.pid in self.view.holdings]
        busy = (f"{self.view.label(q)} is at work: {self.words(q)}" for q in counted if self.works[q.pid] > Work.UNREAD)
        place = self.view.evidence.node
        return Group(name=f"node {place}", members=(node(place),), ties=("the leader counts its jobs together",), at_work=tuple(busy))

    def _group(self, one: frozenset[int]) -> Group:
        first = self.jobs.parties[min(one)]
        around, ties = self.jobs.around(one)
        near = {p: self.jobs.parties[p] for p in sorted(around)}
        busy = [f"{self.view.label(q)} is at work: {self.words(q)}" for q in near.values() if self.works[q.pid] > Work.UNREAD]
        far = [f"{b.who} is at work: {b.does}" for q in near.values() for b in self._far(q) if b.level > Work.UNREAD]
        below = {d.pid for p in one for d in self.view.family_down(p) if d.state not in "ZX"}
        place, boxes = self.view.evidence.node, {near[p].container for p in near if near[p].container}
        jobs = {f"job {self.jobs.parties[p].job}" for p in one if self.jobs.parties[p].job}
        gpus = {f"gpu {h.gpu.uuid}" for p in one for h in self.view.holdings.get(p, ())}
        return Group(
            name=f"job {first.job or 'of no name'} of pid {', '.join(map(str, sorted(one)))}",
            members=(*(process(p, place) for p in sorted(one | below)), *sorted(map(container, boxes)), *sorted(jobs | gpus)),
            ties=ties,
            at_work=tuple(dict.fromkeys((*busy, *far))),
        )
