"""100 per cent busy and no progress: a collective in which every rank waits, or a kernel that never ends."""

import re

from runbooks.core.gpu_set import Gpu
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import CHECKPOINT, Activity, Sign, device_busy
from runbooks.gpu.evidence import Process
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span

LAUNCHER = re.compile(
    r"torchrun|torch\.distributed|elastic|deepspeed|mpirun|mpiexec|\bsrun\b|horovod|accelerate|--nnodes|node[-_]rank|"
    r"ray::|MASTER_ADDR|jax.*distributed|--world[-_]size"
)


def judge_spin(view: GpuView, p: Process, seen: Activity) -> GpuVerdict | None:
    """A holder whose GPUs are all busy, without memory traffic, at flat power, while its job makes no progress."""
    held = [h.gpu for h in view.holdings.get(p.pid, ())]
    if not held or not all(spins(view, g) for g in held) or _progressed(p, seen):
        return None
    together = _mates(view, p)
    slug = "collective-spin" if together or LAUNCHER.search(f"{p.command} {p.parent_command}") else "device-spin"
    words = (
        *(_words(g) for g in held),
        *_still(view, p),
        *(f"pid {q} of job {p.job} spins as well" for q in together),
    )
    certainty = _certainty(view, p, held)
    asks = _asks(view, p, slug, certainty)
    gpus = tuple(g.uuid for g in held)
    return GpuVerdict(slug, certainty, view.label(p), words, asks, pids=(p.pid,), gpus=gpus, kill=True)


def spins(view: GpuView, gpu: Gpu) -> bool:
    """Busy in every sample, next to no memory traffic, power flat (where it is read)."""
    if not device_busy(view, gpu) or gpu.mig:
        return False
    power = [s.power_w for s in gpu.samples if s.power_w is not None]
    flat = not power or max(power) - min(power) <= view.limits.flat_power_w
    return flat and max(s.memory_percent for s in gpu.samples) <= view.limits.spin_memory_percent


def _progressed(p: Process, seen: Activity) -> bool:
    """Rows, files or log lines moved, or a checkpoint is written. CPU and kernels move in a spin too."""
    return Sign.PROGRESS in seen.signs or any(CHECKPOINT.search(w) for w in p.writing)


def _mates(view: GpuView, p: Process) -> list[int]:
    """Other processes of the same job whose GPUs spin too."""
    if not p.job:
        return []
    others = [q for q in view.holdings if q != p.pid and view.processes[q].job == p.job]
    return sorted(q for q in others if all(spins(view, h.gpu) for h in view.holdings[q]))


def _certainty(view: GpuView, p: Process, held: list[Gpu]) -> Certainty:
    """Sure: the earlier reading shows the same process, the same progress and busy GPUs for the limit."""
    marks = view.marks(p.job)
    if not marks:
        return Certainty.POSSIBLE
    by_file = all(m.changed_s_ago is not None and m.changed_s_ago >= view.limits.spin_s for m in marks)
    if not _stood_since(view, p, held):
        return Certainty.LIKELY if by_file else Certainty.POSSIBLE
    enough = view.gap_s >= view.limits.spin_s
    power_read = all(s.power_w is not None for g in held for s in g.samples)
    return (
        Certainty.CONFIRMED if enough and power_read else Certainty.LIKELY if enough or by_file else Certainty.POSSIBLE
    )


def _stood_since(view: GpuView, p: Process, held: list[Gpu]) -> bool:
    if view.earlier is None or view.before(p) is None:
        return False
    marks = view.marks(p.job) or ()
    old = [(view.mark_before(m), m) for m in marks]
    busy = view.earlier.gpu_sm_percent
    still = all(o is not None and o.after == m.after for o, m in old)
    return still and all(busy.get(g.uuid, 0.0) >= view.limits.busy_percent for g in held)


def _words(gpu: Gpu) -> str:
    values = [s.sm_percent for s in gpu.samples]
    power = [s.power_w for s in gpu.samples if s.power_w is not None]
    watts = f", power {min(power):.0f}-{max(power):.0f} W" if power else ", power not read"
    limit = f" of {gpu.power_limit_w:.0f} W" if power and gpu.power_limit_w else ""
    memory = max(s.memory_percent for s in gpu.samples)
    return (
        f"GPU {gpu.index} is {min(values):.0f}-{max(values):.0f} % busy in {len(values)} samples, "
        f"memory traffic at most {memory:.0f} %{watts}{limit}"
    )


def _still(view: GpuView, p: Process) -> tuple[str, ...]:
    marks = view.marks(p.job)
    if not marks:
        return (f"no progress sign of {p.job or 'this process'} could be read",)
    found = []
    for m in marks:
        age = "" if m.changed_s_ago is None else f", last changed {span(m.changed_s_ago)} ago"
        old = view.mark_before(m)
        then = f", as {span(view.gap_s)} ago" if old is not None and old.after == m.after else ""
        found.append(f"{m.path} stands at {m.after} {m.unit}{age}{then}")
    return tuple(found)


def _asks(view: GpuView, p: Process, slug: str, certainty: Certainty) -> tuple[str, ...]:
    asks = [f"stacks of all ranks before anything is stopped: `py-spy dump --pid {p.pid}`"]
    if certainty is not Certainty.CONFIRMED:
        asks.append(f"its step count twice, {span(view.limits.spin_s)} apart (fleet file: the job's `progress`)")
    if slug == "device-spin":
        asks.append("whether the job has ranks on other nodes: then it is a collective that waits, not one kernel")
    else:
        asks.append("which rank lags behind: `ncclras`, or the step each rank logged last")
    return tuple(asks)
