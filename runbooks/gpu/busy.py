"""A GPU that is busy by its counter and on which nobody is listed: a counter that sticks, or work that nobody owns up to."""

from runbooks.core.gpu_set import Gpu
from runbooks.core.verdict import Certainty
from runbooks.gpu.activity import table_says_none
from runbooks.gpu.cards import UNKNOWN, at_rest, of_card
from runbooks.gpu.verdicts import GpuVerdict, of_gpu
from runbooks.gpu.view import GpuView, size


def busy_without_holder(view: GpuView, gpu: Gpu) -> GpuVerdict | None:
    """Busy in every sample, and the driver says in words that no process is on it."""
    values = [s.sm_percent for s in gpu.samples]
    if len(values) < view.limits.min_samples or min(values) <= view.limits.low_gpu_percent or not table_says_none(gpu):
        return None
    power, rest = [s.power_w for s in gpu.samples if s.power_w is not None], of_card(view, gpu, "idle_power_w")
    words = [
        f"GPU {gpu.index} reads {min(values):.0f}-{max(values):.0f} % busy in {len(values)} samples",
        "the driver says: no running processes found",
        f"{size(gpu.memory_used_bytes)} of memory in use",
        _power_words(gpu, power, rest),
    ]
    if power and rest is not None and max(power) > rest:
        return _works(view, gpu, words)
    return _latched(view, gpu, words, sure=bool(power) and rest is not None)


def _power_words(gpu: Gpu, power: list[float], rest: float | None) -> str:
    if not power:
        return "power was not read"
    watts = f"power {min(power):.0f}-{max(power):.0f} W"
    if rest is None:
        return f"{watts}; what a card at rest takes is {UNKNOWN} ({gpu.name})"
    return f"{watts}, {'that of an idle card' if max(power) <= rest else 'more than a card at rest takes'} (at most {rest:.0f} W)"


def _works(view: GpuView, gpu: Gpu, words: list[str]) -> GpuVerdict:
    """Something runs kernels there."""
    seen = view.device_holders
    words += [f"its device files are open in pid {', '.join(map(str, seen))}"] if seen else []
    words += ["no process of this machine has its device files open"] if seen == () else []
    asks = (
        "who has its device files open, as root on the host: `fuser -v /dev/nvidia*`",
        "whether it is given to a virtual machine or a container that this look does not see, or shared by MPS",
        "the same reading a minute later: a process that ended leaves its last kernel running for a moment",
    )
    whole = seen is not None and not view.in_container
    return of_gpu(gpu, "busy-without-holder", Certainty.LIKELY if whole else Certainty.POSSIBLE, words, asks)


def _latched(view: GpuView, gpu: Gpu, words: list[str], sure: bool) -> GpuVerdict | None:
    """High by the counter, with the power of an idle card and memory of the driver alone."""
    high = min(s.sm_percent for s in gpu.samples) >= view.limits.latch_percent
    rest = at_rest(view, gpu)
    extra = gpu.memory_used_bytes - rest.own
    if extra > rest.most:
        return None  # memory without a holder says it
    if not high:
        return of_gpu(gpu, "busy-without-holder", Certainty.POSSIBLE, words, ("the same reading a minute later",))
    asks = ("whether it falls to 0 % after a process has come and gone on the GPU",)
    alone = view.device_holders == () and not view.in_container
    certainty = Certainty.POSSIBLE if not sure or extra > rest.least else Certainty.CONFIRMED if alone else Certainty.LIKELY
    return of_gpu(gpu, "latched-counter", certainty, words, asks)
