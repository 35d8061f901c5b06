"""100 per cent busy and no progress: a collective in which every rank waits, or a kernel that never ends."""

import re

from runbooks.core.gpu_set import Gpu
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import CHECKPOINT, Activity, Sign, device_busy
from runbooks.gpu.cards import UNKNOWN, flat_power, of_all, of_card, power_span
from runbooks.gpu.evidence import Process
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span
from runbooks.gpu.waits import longest_wait_s, wait_s

UNKNOWN_WAIT = "how long a rank of it may wait by itself: no torch of it was seen (fleet file: limit `spin_s`)"
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
        *(_unsettled(g) for g in held if power_span(g) is not None and not of_card(view, g, "flat_power_w")),
        *_still(view, p),
        *(f"pid {q} of job {p.job} spins as well" for q in together),
    )
    certainty = _certainty(view, p, held)
    asks = _asks(view, p, slug, certainty, held)
    gpus = tuple(g.uuid for g in held)
    return GpuVerdict(slug, certainty, view.label(p), words, asks, pids=(p.pid,), gpus=gpus, kill=True)


def spins(view: GpuView, gpu: Gpu) -> bool:
    """Busy in every sample, next to no memory traffic, and power that is not known to move."""
    if not device_busy(view, gpu) or gpu.mig or flat_power(view, gpu) is False:
        return False
    return max(s.memory_percent for s in gpu.samples) <= view.limits.spin_memory_percent


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
    """Sure: the earlier reading shows the same process, the same progress and busy GPUs for longer than its torch lets a rank wait."""
    marks = view.marks(p.job)
    if not marks:
        return Certainty.POSSIBLE
    known, longest = wait_s(view, p), longest_wait_s(view)
    limit = longest if known is None else known
    by_file = all(m.changed_s_ago is not None and m.changed_s_ago >= limit for m in marks)
    enough = _stood_since(view, p, held) and view.gap_s >= limit
    if all(flat_power(view, g) for g in held):
        sure = Certainty.LIKELY if known is None else Certainty.CONFIRMED
        return sure if enough else Certainty.LIKELY if by_file else Certainty.POSSIBLE
    return Certainty.LIKELY if enough and not any(_moves_beyond_all(g) for g in held) else Certainty.POSSIBLE


def _moves_beyond_all(gpu: Gpu) -> bool:
    """Its power moves more than that of any card that is known to wait: where nothing is known of this one, that may be work."""
    return (power_span(gpu) or 0.0) > max(of_all("flat_power_w"))


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


def _unsettled(gpu: Gpu) -> str:
    return f"how far the power of GPU {gpu.index} moves while a kernel waits is {UNKNOWN} ({gpu.name})"


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


def _asks(view: GpuView, p: Process, slug: str, certainty: Certainty, held: list[Gpu]) -> tuple[str, ...]:
    asks = [f"stacks of all ranks before anything is stopped: `py-spy dump --pid {p.pid}`"]
    if certainty is not Certainty.CONFIRMED:
        known = wait_s(view, p)
        apart = span(longest_wait_s(view) if known is None else known)
        asks.append(f"its step count twice, {apart} apart (fleet file: the job's `progress`)")
        asks += [UNKNOWN_WAIT] if known is None else []
    asks += _power_asks(view, held)
    if slug == "device-spin":
        asks.append("whether the job has ranks on other nodes: then it is a collective that waits, not one kernel")
    else:
        asks.append("which rank lags behind: `ncclras`, or the step each rank logged last")
    return tuple(asks)


def _power_asks(view: GpuView, held: list[Gpu]) -> list[str]:
    """What is missing before its power says something."""
    gaps = [g.index for g in held if any(s.power_w is None for s in g.samples)]
    known = all(of_card(view, g, "flat_power_w") for g in held)
    asks = [f"the power of GPU {index}: it was not read in every sample" for index in gaps]
    return asks + ([] if known else ["how far the power of such a card moves while a kernel only waits (fleet file: limit `flat_power_w`)"])
