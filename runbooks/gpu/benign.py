"""Processes that look like zombies and must be left alone: at work, starting, waiting on purpose, held."""

import re

from runbooks.core.gpu_set import Gpu
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import CHECKPOINT, Activity, Sign, activity
from runbooks.gpu.evidence import Process
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span

COMPILERS = re.compile(r"\b(ptxas|nvcc|cicc|ninja|cc1plus|gcc|g\+\+|clang|ld|compile_worker|inductor)\b")
WAITERS = re.compile(
    r"\b(ipykernel|jupyter|vllm|sglang|text-generation|tritonserver|ollama|torchserve|uvicorn|gunicorn|ray::IDLE)"
)
STORAGE = re.compile(r"io_schedule|wait_on_page|folio_wait|nfs|rpc_|ext4|xfs|btrfs|jbd2|blk_|fuse|lustre|cl_sync|ceph")
FROZEN = re.compile(r"refrigerator|freezer_trap|freezer")


def held_by_a_person(view: GpuView, p: Process) -> GpuVerdict | None:
    """A debugger, a frozen container, or a scheduler that suspended it: stopped on purpose."""
    if p.tracer or p.state == "t" or "t" in p.states:
        by = f"pid {p.tracer} traces it" if p.tracer else "its state is t (tracing stop)"
        return _benign(view, p, "debugged", Certainty.CONFIRMED, (f"{by}: somebody looks at it",))
    if FROZEN.search(p.wchan):
        return _benign(
            view,
            p,
            "suspended-on-purpose",
            Certainty.CONFIRMED,
            (f"it waits in {p.wchan}: its cgroup is frozen",),
        )
    scheduler = "slurmstepd" in p.parent_command or re.search(r"/slurm|/job_\d+/step_", p.cgroup)
    if p.state == "T" and scheduler:
        words = (f"state T, and a batch scheduler runs it ({p.cgroup or p.parent_command})",)
        asks = ("`scontrol show job` (SUSPENDED?)",)
        return _benign(view, p, "suspended-on-purpose", Certainty.LIKELY, words, asks)
    return None


def at_work(view: GpuView, p: Process, seen: Activity) -> GpuVerdict | None:
    """It moves: say what it is doing, so that low GPU use is explained. None where nothing moved."""
    if not seen.moves:
        return None
    job = view.jobs.get(p.job)
    below = view.family_down(p.pid)
    busy = view.limits.idle_cpu_percent / 100 * view.evidence.window_s
    loading = [c for c in below if (c.cpu_window_s or 0) > busy or (c.io_window_bytes or 0) > 0]
    slug, *others = _names_of_work(p, seen, job.kind if job else "", loading, [c for c in below if c not in loading and _unread(c)])
    ppid = (f"its parent is gone (PPID {p.ppid}), yet it works",) if is_orphan(view, p) else ()
    if slug == "works-at-low-utilisation" and seen.signs == {Sign.CPU} and not view.holdings.get(p.pid) and not p.nvidia_fds:
        words = (*seen.moves, "it holds no GPU yet, and no device file of one", *ppid)
        asks = (f"look again in {span(view.limits.warm_up_s)}: it holds a GPU then, or never uses one",)
        return _benign(view, p, "compiling-or-loading", Certainty.LIKELY, words, asks)
    if ppid and seen.signs == {Sign.CPU}:
        does = f"what it does with its CPU: `py-spy dump --pid {p.pid}`, `cat /proc/{p.pid}/stack`"
        asks = (f"{does} (a loop in the driver takes no signal)",)
        return _benign(view, p, slug, Certainty.POSSIBLE, (*seen.moves, *ppid), asks)
    words = (*seen.moves, *_counts(view, p), *ppid)
    if others:  # that it works is sure, and not what it does
        return _benign(view, p, slug, Certainty.LIKELY, words, seen.unread or ("what its children do: their counters were not readable",))
    return _benign(view, p, slug, Certainty.CONFIRMED, words)


def _names_of_work(p: Process, seen: Activity, kind: str, loading: list[Process], unread: list[Process]) -> list[str]:
    """What it does by what was read; then what else that could be, if a sign or a child that was not read moved."""
    signs = [seen.signs, *(seen.signs | {sign} for sign in sorted(seen.unknown))]
    return list(dict.fromkeys(_name_of_work(p, s, kind, kids) for kids in (loading, loading + unread) for s in signs))


def _unread(p: Process) -> bool:
    return p.state not in "ZX" and (p.cpu_window_s is None or p.io_window_bytes is None)


def _name_of_work(p: Process, signs: frozenset[Sign], kind: str, children: list[Process]) -> str:
    if any(CHECKPOINT.search(w) for w in p.writing):
        return "writing-checkpoint"
    if any(COMPILERS.search(c.command) for c in children):
        return "compiling-or-loading"
    if kind == "selfplay" and Sign.CPU in signs:
        return "cpu-bound-by-design"
    if Sign.CHILDREN in signs or children or STORAGE.search(p.wchan):
        return "starved-by-loader"
    return _name_of_lone_work(signs)


def _name_of_lone_work(signs: frozenset[Sign]) -> str:
    if signs & {Sign.GPU, Sign.PROGRESS, Sign.WRITING}:
        return "works-at-low-utilisation"
    if Sign.SOCKETS in signs:
        return "transferring"
    return "compiling-or-loading" if Sign.IO in signs else "works-at-low-utilisation"


def _counts(view: GpuView, p: Process) -> tuple[str, ...]:
    """How a reading of utilisation alone would have judged: the number that misleads."""
    found = []
    for held in view.holdings.get(p.pid, ()):
        values = [s.sm_percent for s in held.gpu.samples]
        low = [v for v in values if v < view.limits.low_gpu_percent]
        if low:
            zero = sum(v == 0 for v in values)
            found.append(
                f"GPU {held.gpu.index} reads below {view.limits.low_gpu_percent:.0f} % in {len(low)} of "
                f"{len(values)} samples ({zero} of them 0 %): alone that proves nothing"
            )
    return tuple(found)


def starting(view: GpuView, p: Process) -> GpuVerdict | None:
    """Younger than its warm-up: imports, model load and compilation look like idleness."""
    job = view.jobs.get(p.job)
    warm_up = job.warm_up_s if job else view.limits.warm_up_s
    if p.age_s >= warm_up:
        return None
    words = (f"it is {span(p.age_s)} old; its warm-up is {span(warm_up)}",)
    return _benign(view, p, "warming-up", Certainty.LIKELY, words, (f"look again in {span(warm_up - p.age_s)}",))


def waiting(view: GpuView, p: Process, seen: Activity) -> GpuVerdict | None:
    """A server or a notebook: idle until somebody asks."""
    job = view.jobs.get(p.job)
    if job is not None and job.kind in ("inference", "interactive"):
        words = (f"job {p.job} is of kind {job.kind}: it waits for requests or for a person",)
        sure = Certainty.LIKELY if seen.unread else Certainty.CONFIRMED  # it may be at work
        return _benign(view, p, "waiting-for-work", sure, words, seen.unread)
    looks = WAITERS.search(p.command)
    left = is_orphan(view, p) or lost_its_leader(view, p)
    leads = p.pid in (p.pgid, p.sid)  # a port alone does not acquit it: what an ended server or training left listens, too
    serves = bool(p.listening and leads and (looks or not p.run)) if left else bool(looks or p.listening)
    if job is None and serves:
        ports = f"it listens on {', '.join(map(str, p.listening))}" if p.listening else ""
        name = f"its command is that of a server or a notebook ({looks.group(1)})" if looks else ""
        said = tuple(w for w in (ports, name) if w)
        asks = ("name it in the fleet file as a job of kind inference or interactive",)
        return _benign(view, p, "waiting-for-work", Certainty.LIKELY, said, asks)
    return None


def lost_its_leader(view: GpuView, p: Process) -> bool:
    """Inside a container, where the first process is the parent of all orphans: who led its process group is not there any more."""
    return view.in_container and p.ppid == 1 and p.pgid not in (1, p.pid) and p.pgid not in view.processes


def is_orphan(view: GpuView, p: Process) -> bool:
    """Its parent is gone: adopted by init on a host, and no systemd service or container entry point."""
    if p.ppid != 1 or view.in_container or p.container:
        return False
    return supervisor(p) == ""


def supervisor(p: Process) -> str:
    """The systemd unit that would start it again, "" where none is seen (sshd and sessions start nothing)."""
    unit = next((x for x in reversed(p.cgroup.split("/")) if x.endswith(".service")), "")
    return "" if re.match(r"(sshd?|user@\d+|cron|getty.*|dbus)\.service$", unit) else unit


def shared_gpu(view: GpuView, gpu: Gpu) -> GpuVerdict | None:
    """MIG, or a table that can't be resolved here: somebody else's work may be on it."""
    if gpu.mig:
        mig = (f"GPU {gpu.index} is split by MIG: the driver gives no use per process",)
        return _gpu_benign(gpu, "shared-gpu", Certainty.CONFIRMED, mig)
    use = max((s.sm_percent for s in gpu.samples), default=0.0)
    hidden = not isinstance(gpu.processes, Known)
    if (hidden or view.strangers(gpu)) and use > 0 and not _ours(view, gpu) and not explained_here(view, gpu):
        words = (
            f"GPU {gpu.index} runs kernels (up to {use:.0f} %)",
            "its process table is empty, which is not the same as 'no running processes found'"
            if hidden
            else f"pid {', '.join(str(g.pid) for g in view.strangers(gpu))} is not of this PID namespace",
        )
        return _gpu_benign(gpu, "shared-gpu", Certainty.LIKELY, words)
    return None


def explained_here(view: GpuView, gpu: Gpu) -> bool:
    """The table names nobody, but a job here has the device files open and works: a container with its own GPUs."""
    if isinstance(gpu.processes, Known):
        return False
    mine = (p for p in view.processes.values() if p.job and p.nvidia_fds and p.state not in "ZX")
    return any(activity(view, p).moves for p in mine)


def _ours(view: GpuView, gpu: Gpu) -> bool:
    return any(h.gpu.uuid == gpu.uuid for held in view.holdings.values() for h in held)


def _gpu_benign(gpu: Gpu, slug: str, certainty: Certainty, words: tuple[str, ...]) -> GpuVerdict:
    asks = ("look from the host, or with --pid=host: `nvidia-smi`, then the owner's cgroup",)
    return GpuVerdict(slug, certainty, f"GPU {gpu.index}", words, asks, benign=True, gpus=(gpu.uuid,))


def _benign(
    view: GpuView,
    p: Process,
    slug: str,
    certainty: Certainty,
    words: tuple[str, ...],
    asks: tuple[str, ...] = (),
) -> GpuVerdict:
    gpus = tuple(h.gpu.uuid for h in view.holdings.get(p.pid, ()))
    return GpuVerdict(slug, certainty, view.label(p), words, asks, benign=True, pids=(p.pid,), gpus=gpus)
