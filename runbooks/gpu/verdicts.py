"""What one judge says, before it is ranked: a cause, and which processes and GPUs it is about."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runbooks.core.gpu_set import Gpu
from runbooks.core.judgment import ordered
from runbooks.core.verdict import Cause, Certainty
from runbooks.gpu.parsers.kernel_log import bus_key


@dataclass(frozen=True)
class GpuVerdict:
    """A cause with its subjects. `kill`: ending these processes is the remedy."""

    slug: str
    certainty: Certainty
    subject: str
    evidence: tuple[str, ...]
    decides: tuple[str, ...] = ()
    benign: bool = False
    pids: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()  # UUIDs
    bus: str = ""  # key of the PCI bus id, where the GPU has no UUID any more
    kill: bool = False
    reset: bool = False  # the table (or the driver) says: reset this GPU
    container: str = ""  # restarting this container is the remedy

    @property
    def confirmed(self) -> bool:
        """Sure enough to act on."""
        return self.certainty is Certainty.CONFIRMED

    @property
    def credible(self) -> bool:
        """A fault that is confirmed or likely."""
        return not self.benign and self.certainty in (Certainty.CONFIRMED, Certainty.LIKELY)

    @property
    def cause(self) -> Cause:
        """As the report shows it."""
        return Cause(
            slug=self.slug,
            certainty=self.certainty,
            subject=self.subject,
            evidence=self.evidence,
            decides=self.decides,
            benign=self.benign,
        )


def of_gpu(gpu: Gpu, slug: str, certainty: Certainty, words: list[str], asks: tuple[str, ...]) -> GpuVerdict:
    """A verdict about one GPU as such."""
    return GpuVerdict(slug, certainty, f"GPU {gpu.index}", tuple(words), asks, gpus=(gpu.uuid,), bus=bus_key(gpu.bus_id))


def comes_first(hardware: tuple[GpuVerdict, ...], v: GpuVerdict, why: str) -> str:
    """Which credible fault of GPUs or driver stands before that cause of a process, and `why`; "" if none does.

    That of a GPU: for processes on it. One without a UUID may be of any, and a driver that hangs keeps all.
    """
    first = next((h for h in hardware if not h.gpus or set(h.gpus) & set(v.gpus) or h.slug == "driver-stuck"), None)
    return f"{first.slug} ({first.subject}) comes first. {why}" if first else ""


UNOWNED = ("memory-without-holder", "busy-without-holder")
BESIDE = "defunct-unreaped"


def ranked(verdicts: list[GpuVerdict]) -> tuple[GpuVerdict, ...]:
    """Credible faults, earliest first; then possible ones, benign explanations, what is ruled out."""
    return ordered("zombie-gpu", sorted(verdicts, key=lambda v: (not v.gpus, v.subject)), late(verdicts))


def late(verdicts: Iterable[GpuVerdict]) -> tuple[str, ...]:
    """What is only true beside a GPU that nobody owns up to: a dead process that keeps nothing of it by the driver's list."""
    return (BESIDE,) if any(v.slug in UNOWNED and v.credible for v in verdicts) else ()


def unowned(verdicts: Iterable[GpuVerdict]) -> list[GpuVerdict]:
    """The same, without the restart of a dead process's container where a GPU has no owner: its last user is not told."""
    every = list(verdicts)
    gpus = dict.fromkeys(v.subject for v in every if v.slug in UNOWNED and v.certainty is not Certainty.RULED_OUT)
    if not gpus:
        return every
    words = f"whether it was the last user of {', '.join(gpus)} is not told, so nothing is ended or restarted for it"
    return [replace(v, evidence=(*v.evidence, words), container="") if v.slug == BESIDE else v for v in every]
