"""Judges each process that holds a GPU or belongs to a job: one verdict, the earliest cause that fits."""

from dataclasses import replace

from runbooks.core.verdict import Certainty
from runbooks.gpu import benign
from runbooks.gpu.activity import Activity, activity
from runbooks.gpu.company import WAITING_KINDS, Company
from runbooks.gpu.dead import judge_defunct, judge_uninterruptible
from runbooks.gpu.evidence import Process
from runbooks.gpu.spin import judge_spin
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, size, span


def alone(view: GpuView) -> dict[int, GpuVerdict | None]:
    """A verdict for every subject among the processes that were read, each by itself."""
    return {p.pid: judge_process(view, p) for p in subjects(view)}


def judge_processes(company: Company) -> list[GpuVerdict]:
    """A verdict for every subject, with the other processes of its job in sight."""
    found = [company.judged(company.view.processes[pid]) for pid in company.alone]
    return [v for v in found if v is not None]


def subjects(view: GpuView) -> list[Process]:
    """GPU holders, dead and stuck processes, and job processes whose family holds no GPU (not launchers)."""
    every = sorted(view.processes.values(), key=lambda p: p.pid)
    return [p for p in every if p.pid in view.holdings or p.state in "ZD" or p.nvidia_fds or _alone(view, p)]


def _alone(view: GpuView, p: Process) -> bool:
    """A job process with no GPU holder above, below or beside it: the job itself, not its launcher."""
    if not p.job:
        return False
    if any(a in view.processes and view.processes[a].job == p.job for a in view.ancestors(p.pid)):
        return False
    kin = {q.pid for q in view.processes.values() if q.job == p.job and q.sid == p.sid}
    kin |= {q.pid for q in view.family_down(p.pid)} | set(view.ancestors(p.pid))
    return not any(k in view.holdings or view.processes[k].nvidia_fds for k in kin - {p.pid})


def judge_process(view: GpuView, p: Process) -> GpuVerdict | None:
    """The earliest cause that fits, or the benign explanation; None where there is nothing to explain."""
    if p.state in "ZX":
        return judge_defunct(view, p)
    on_purpose = benign.held_by_a_person(view, p)
    if on_purpose:
        return on_purpose
    if p.state == "T":
        return judge_stopped(view, p)
    stuck = judge_uninterruptible(view, p)
    if stuck:
        return stuck
    return _judge_running(view, p)


def _judge_running(view: GpuView, p: Process) -> GpuVerdict | None:
    if p.pid not in view.holdings and not p.job:
        return None  # holds a device file only: monitoring agents and the driver's own daemons do
    seen = activity(view, p)
    young = benign.starting(view, p)
    spin = judge_spin(view, p, seen)
    if spin:
        return young or _may_wait(view, p, spin)
    return benign.at_work(view, p, seen) or young or benign.waiting(view, p, seen) or judge_idle(view, p, seen)


def _may_wait(view: GpuView, p: Process, spin: GpuVerdict) -> GpuVerdict:
    """A rank of a server may spin because nobody asks it anything: a step that stands still proves nothing there."""
    job = view.jobs.get(p.job)
    if job is None or job.kind not in WAITING_KINDS:
        return spin
    asks = (f"whether a request waits or is served: job {p.job} is of kind {job.kind} and may wait for work", *spin.decides)
    return replace(spin, certainty=Certainty.POSSIBLE, decides=asks)


def judge_stopped(view: GpuView, p: Process) -> GpuVerdict:
    """State T at every look: it waits for SIGCONT and does nothing until then."""
    old = view.before(p)
    since = view.gap_s if old is not None and old.state == "T" else 0.0
    always = len(p.states) >= 2 and set(p.states) == {"T"}
    long = max(since, view.evidence.window_s if always else 0.0)
    ours = bool(p.job) or since >= view.limits.idle_s  # a stranger's Ctrl-Z is not a fault after one window
    sure = always and ours and long >= view.limits.stopped_s and _nothing_moved(p)
    seen = (
        f"state T at all {len(p.states)} looks" if always else f"state {', '.join(p.states or (p.state,))} at its looks"
    )
    words = [f"{seen} over {span(view.evidence.window_s)}"]
    words += [f"state T already {span(since)} ago (report {view.earlier.report})"] if since and view.earlier else []
    words += [] if p.cpu_window_s is None else [f"it used {p.cpu_window_s:.2f} s of CPU meanwhile"]
    words += _holds(view, p)
    asks = [f"who stopped it: `ps -o pid,stat,tty,ppid -p {p.pid}`"]
    asks += ["whether it did any I/O meanwhile: its counters were not readable"] if p.io_window_bytes is None else []
    certainty = Certainty.CONFIRMED if sure else Certainty.LIKELY if always else Certainty.POSSIBLE
    return _fault(view, p, "stopped", certainty, tuple(words), tuple(asks))


def _nothing_moved(p: Process) -> bool:
    """A process that was stopped all the time used no CPU and wrote nothing (it may have run between two looks)."""
    return p.cpu_window_s == 0 and p.io_window_bytes == 0 and not p.writing


def judge_idle(view: GpuView, p: Process, seen: Activity) -> GpuVerdict:
    """Alive, and nothing moves: sure only if the limit is covered and every sign could be read. That of no job may be a service."""
    orphan = benign.is_orphan(view, p)
    covered = seen.bridged_s >= view.limits.idle_s
    known = bool(p.job) or orphan
    certainty = Certainty.POSSIBLE
    if covered and p.state != "D" and (known or benign.lost_its_leader(view, p)):
        certainty = Certainty.CONFIRMED if known and not seen.unread else Certainty.LIKELY
    parent = (f"its parent is gone (PPID {p.ppid}, session {p.sid})",) if orphan else ()
    words = (*parent, *seen.still, *seen.bridge, *_holds(view, p))
    return _fault(view, p, "orphan-idle" if orphan else "idle-process", certainty, words, _asks(view, p, seen, known))


def _asks(view: GpuView, p: Process, seen: Activity, known: bool) -> tuple[str, ...]:
    asks = list(seen.unread)
    if seen.bridged_s < view.limits.idle_s:
        asks.append(f"a reading at least {span(view.limits.idle_s)} apart from another: run this again")
    if not known:
        asks.append("whether it waits on purpose: no job of the fleet file matches it, so its owner has to say")
    where = "stack" if p.state == "D" else "wchan"
    asks.append(f"what it waits for: `py-spy dump --pid {p.pid}` or `cat /proc/{p.pid}/{where}`")
    return tuple(asks)


def _holds(view: GpuView, p: Process) -> list[str]:
    found = []
    for held in view.holdings.get(p.pid, ()):
        used = held.listed.used_bytes
        found.append(f"it holds {'an unknown amount' if used is None else size(used)} of GPU {held.gpu.index}'s memory")
    if not found and p.nvidia_fds:
        found.append(f"it has {', '.join(p.nvidia_fds[:3])} open; its memory is not listed by pid here")
    return found


def _fault(
    view: GpuView, p: Process, slug: str, certainty: Certainty, words: tuple[str, ...], asks: tuple[str, ...]
) -> GpuVerdict:
    gpus = tuple(h.gpu.uuid for h in view.holdings.get(p.pid, ()))
    return GpuVerdict(slug, certainty, view.label(p), words, asks, pids=(p.pid,), gpus=gpus, kill=True)
