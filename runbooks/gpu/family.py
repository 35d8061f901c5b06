"""Which processes belong to what is ended: all of them listed, none of them at work, or nothing is ended."""

from dataclasses import dataclass, field

from runbooks.core.reading import value_or
from runbooks.core.remedies import NotDone
from runbooks.gpu.activity import Sign, activity
from runbooks.gpu.benign import supervisor
from runbooks.gpu.company import IDLE, WAITS
from runbooks.gpu.elsewhere import unread
from runbooks.gpu.evidence import Process
from runbooks.gpu.going_on import why_not
from runbooks.gpu.mates import Jobs
from runbooks.gpu.verdicts import GpuVerdict, comes_first
from runbooks.gpu.view import GpuView

WAITS_IN_DRIVER = "A process that waits in the driver can't be ended"


@dataclass(frozen=True)
class KillSet:
    """One kill set: the members share a session or a cgroup, and the fault."""

    members: tuple[Process, ...]
    sid: int
    cgroup: str
    gpus: tuple[str, ...]
    bytes: int
    slugs: tuple[str, ...]


@dataclass
class KillSets:
    """What would be ended, which containers restarted instead, and why the rest is left alone."""

    families: list[KillSet] = field(default_factory=list)
    boxes: dict[str, set[str]] = field(default_factory=dict)  # container id -> causes
    notes: list[NotDone] = field(default_factory=list)


@dataclass(frozen=True)
class KillCase:
    """The judgment that a kill set has to respect."""

    view: GpuView
    verdicts: tuple[GpuVerdict, ...]
    jobs: Jobs

    @property
    def guilty(self) -> set[int]:
        """PIDs whose own confirmed cause asks for their end."""
        return {p for v in self.verdicts if v.kill and v.confirmed and not v.benign for p in v.pids}

    @property
    def guarded(self) -> set[int]:
        """Innocent PIDs and everything above them."""
        benign = {p for v in self.verdicts if v.benign for p in v.pids}
        return benign | {a for p in benign for a in self.view.ancestors(p)}


def kill_sets(view: GpuView, verdicts: tuple[GpuVerdict, ...], hardware: tuple[GpuVerdict, ...], jobs: Jobs) -> KillSets:
    """Kill sets for the confirmed causes whose remedy is to end processes, and why others get none."""
    case, found = KillCase(view, verdicts, jobs), KillSets()
    chosen: dict[tuple[int, str], tuple[dict[int, Process], set[str]]] = {}
    for v in (v for v in verdicts if v.kill and v.confirmed and not v.benign):
        root = view.processes[v.pids[0]]
        members = [root, *(q for q in view.family_down(root.pid) if q.state not in "ZX")]
        against = comes_first(hardware, v, WAITS_IN_DRIVER) or _ranks_elsewhere(case, root, v) or _part_of(case, root, v)
        if against := against or next((w for q in members if (w := _not_this(case, root, q))), ""):
            found.notes.append(NotDone(f"pid {root.pid} is not ended from here: {against}", "terminate-processes", [root.pid]))
        elif _is_container(view, root):
            found.boxes.setdefault(root.container, set()).add(v.slug)
        else:
            kept, slugs = chosen.setdefault((root.sid, root.cgroup), ({}, set()))
            kept.update({p.pid: p for p in members})
            slugs.add(v.slug)
    ended = {pid for kept, _ in chosen.values() for pid in kept}
    for _, (kept, slugs) in sorted(chosen.items()):
        kept.update({p.pid: p for pid in sorted(kept) for p in _launchers(case, view.processes[pid], ended)})
        found.families.append(_family(view, kept, slugs))
    return found


def _family(view: GpuView, kept: dict[int, Process], slugs: set[str]) -> KillSet:
    members = tuple(kept[k] for k in sorted(kept))
    gpus = sorted({h.gpu.uuid for p in members for h in view.holdings.get(p.pid, ())})
    total = sum(view.held_bytes(p.pid) or 0 for p in members)
    first = members[0]
    return KillSet(members, first.sid, first.cgroup, tuple(gpus), total, tuple(sorted(slugs)))


def _is_container(view: GpuView, p: Process) -> bool:
    """It is the first process of a container, seen from the host: its end is the container's end."""
    return bool(p.container) and not view.in_container and len(p.ns_pids) > 1 and p.ns_pids[-1] == 1


def _part_of(case: KillCase, root: Process, v: GpuVerdict) -> str:
    """One that waits is not ended while a rank of its own job here is not proven to be stuck as well."""
    if v.slug not in WAITS:
        return ""
    mine = (case.view.processes[q] for q in sorted(case.jobs.cell(root.pid)) if q in case.view.holdings)
    rest = [q.pid for q in mine if q.pid not in case.guilty]
    return f"pid {', '.join(map(str, rest))} of its job is not proven to be stuck: stop the whole job by its launcher" if rest else ""


def _ranks_elsewhere(case: KillCase, root: Process, v: GpuVerdict) -> str:
    """Why ranks on other nodes come first, "" if nothing says so."""
    job = case.view.jobs.get(root.job)
    if root.run is None and not (job and job.single_node):
        return "its environment could not be read. Whether it has mates on other nodes, and whether they work, is not known"
    size, here = case.jobs.world(root)
    if size > here and v.slug in WAITS:
        return f"its world has {size} ranks and {here} of them were seen here. The others may keep it waiting: look at all of them first"
    if size > here and (nodes := unread(case.view.evidence)):
        return f"its world has {size} ranks, {here} of them here. Whether a mate works on {', '.join(nodes)} could not be read"
    if job is not None and job.single_node:
        return ""
    if v.slug == "collective-spin":
        return "ranks on other nodes would be left waiting: stop the whole job by its launcher"
    if v.slug in IDLE and job is not None and not _own_progress_stands(case, root.job):
        return (
            f"ranks of {root.job} on other nodes may keep it waiting (a barrier, an upload). Look at all of them first"
        )
    spins = [w for w in case.verdicts if w.slug == "collective-spin"]
    mates = [p for w in spins for p in w.pids if root.job and case.view.processes[p].job == root.job]
    if v.slug == "stopped" and mates:
        alone = why_not(case.view, case.jobs, root)
        then = "stop the whole job by its launcher" if alone else f"`kill -CONT {root.pid}` first, else stop the whole job"
        return f"other ranks of {root.job} wait for it: {then}"
    return ""


def _own_progress_stands(case: KillCase, job: str) -> bool:
    """The job's own signs of progress were read and stood still; or all of it runs here."""
    marks = [m for m in value_or(case.view.evidence.progress, ()) if m.job == job]
    return bool(marks) and all(m.before == m.after for m in marks)


def _not_this(case: KillCase, root: Process, q: Process) -> str:
    """Why a member forbids the whole set; "" if it may be ended."""
    view = case.view
    if q.pid <= 1 or q.start_ticks <= 0:
        return f"pid {q.pid} has no identity that could be checked"
    if q.pid in case.guarded:
        return f"pid {q.pid} of its family works, or another process that works depends on it"
    if q.state == "D":
        return f"pid {q.pid} of its family is in uninterruptible sleep"
    if q.tracer or q.state == "t":
        return f"pid {q.pid} of its family is being debugged"
    if q.sid != root.sid and (q.cgroup in ("", "/") or q.cgroup != root.cgroup):
        return f"pid {q.pid} left its session and its cgroup: whose it is is not sure"
    if view.held_bytes(q.pid) is None:
        return f"how much GPU memory pid {q.pid} holds is not known, so its release could not be proven"
    if supervisor(q):
        return f"{supervisor(q)} supervises pid {q.pid} and may start it again: `systemctl stop {supervisor(q)}`"
    if q.pid in case.guilty:
        return ""
    if q.cpu_window_s is None or q.io_window_bytes is None:
        return f"whether pid {q.pid} of its family does anything could not be read"
    if q.pid in view.holdings or q.nvidia_fds:
        return f"pid {q.pid} of its family is on a GPU too, and its own case is not proven"
    seen = activity(view, q)
    moves = seen.moves if seen.signs - {Sign.CHILDREN, Sign.PROGRESS} else ()  # those are its family's, judged there
    return f"pid {q.pid} of its family is at work: {moves[0]}" if moves else ""


def _launchers(case: KillCase, root: Process, ended: set[int]) -> list[Process]:
    """Idle processes of the same job and session above it that have nothing else left to look after."""
    view = case.view
    found: list[Process] = []
    for q in (view.processes[a] for a in view.ancestors(root.pid)):
        near = q.sid == root.sid or bool(root.container and q.container == root.container)
        below = {d.pid for d in view.family_down(q.pid) if d.state not in "ZX"} - {p.pid for p in found}
        if not (root.job and q.job == root.job and near and below <= ended):
            break
        if q.state not in "SRT" or q.pid in view.holdings or (q.pid not in ended and _not_this(case, root, q)):
            break
        found.append(q)
    return found
