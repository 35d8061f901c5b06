"""Stopped processes that may simply go on: which, with which others, and why not."""

from dataclasses import dataclass

from runbooks.core.halted import NAME, asking, withheld
from runbooks.core.plan import Plan
from runbooks.core.remedies import NotDone
from runbooks.core.signals import continued
from runbooks.core.verdict import Certainty
from runbooks.gpu.evidence import Process
from runbooks.gpu.mates import Jobs
from runbooks.gpu.verdicts import GpuVerdict, comes_first
from runbooks.gpu.view import GpuView


@dataclass(frozen=True)
class GoingOn:
    """The plan, if any, and why some are not continued."""

    plan: Plan | None
    notes: tuple[NotDone, ...]


def going_on(view: GpuView, verdicts: tuple[GpuVerdict, ...], hardware: tuple[GpuVerdict, ...], jobs: Jobs) -> GoingOn:
    """One plan for all that are surely stopped and whose going on harms nobody."""
    notes, kept = list[NotDone](), dict[int, Process]()
    for v in (v for v in verdicts if v.slug == "stopped" and v.certainty is not Certainty.RULED_OUT):
        root = view.processes[v.pids[0]]
        members = (root, *_stopped_with(view, root))
        against = comes_first(hardware, v, "What goes on would only meet it")
        if against := against or next((w for q in members if (w := why_not(view, jobs, q))), ""):
            notes.append(withheld(root.pid, against))
        elif v.confirmed:
            kept |= {q.pid: q for q in members}
    boot = view.facts.boot_id if view.facts else ""
    if not kept or not boot:
        return GoingOn(None, tuple(notes))
    step = continued(view.evidence.node, boot, [kept[k] for k in sorted(kept)])
    why = asking(*_beside(view, jobs, kept))
    return GoingOn(Plan(name=NAME, steps=(step,), for_causes=("stopped",), why=why, settle_s=5.0), tuple(notes))


def _beside(view: GpuView, jobs: Jobs, kept: dict[int, Process]) -> list[str]:
    """Younger processes of the same job of which nothing says whether they took the place of a stopped one."""
    found = {
        p.pid: f"pid {p.pid} of {p.job} was started later: if it took the place of pid {q.pid}, both would write the same files"
        for q in kept.values()
        for p in view.processes.values()
        if p.pid not in kept and _is_younger_mate(view, q, p) and p.pid not in jobs.cell(q.pid)
    }
    return [found[k] for k in sorted(found)]


def _stopped_with(view: GpuView, root: Process) -> list[Process]:
    """Those of its session that were stopped with it: a signal from a terminal reaches all of a group."""
    kin = {q.pid for q in view.family_down(root.pid)} | set(view.ancestors(root.pid))
    near = (q for q in view.processes.values() if q.pid in kin or q.pgid == root.pgid)
    return [q for q in near if q.pid != root.pid and q.sid == root.sid and set(q.states or (q.state,)) == {"T"}]


def why_not(view: GpuView, jobs: Jobs, q: Process) -> str:
    """Why it must not go on, "" if nothing speaks against it."""
    if q.pid <= 1 or q.start_ticks <= 0:
        return f"pid {q.pid} has no identity that could be checked"
    if q.tracer:
        return f"pid {q.tracer} traces pid {q.pid}: a debugger holds it"
    newer = [p for p in view.processes.values() if _is_newer_run(view, jobs, q, p)]
    if newer:
        return f"pid {newer[0].pid} is a newer run of {q.job}: two would write the same files"
    return ""


def _is_newer_run(view: GpuView, jobs: Jobs, q: Process, p: Process) -> bool:
    """Whether `p` has taken the place of `q`: the same job, started since, as its next run."""
    return _is_younger_mate(view, q, p) and jobs.another_run(q, p)


def _is_younger_mate(view: GpuView, q: Process, p: Process) -> bool:
    lives = p.state not in "ZXT" and q.age_s - p.age_s > view.limits.together_s
    return bool(q.job) and p.job == q.job and lives
