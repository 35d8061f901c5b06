"""What to change against CUDA out-of-memory, cheapest first, computed for the given configuration."""

from math import isqrt

from runbooks.core.sizes import size
from runbooks.memory.evidence import Setup
from runbooks.parsers.cuda_oom import CudaOom

EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def cheaper_batches(setup: Setup) -> list[tuple[int, int]]:
    """(batch, accumulation) that keep the global batch exactly, largest batch first."""
    if not setup.batch:
        return []
    product = setup.batch * setup.accumulation
    small = [b for b in range(1, isqrt(product) + 1) if product % b == 0]
    every = sorted({*small, *(product // b for b in small)}, reverse=True)
    return [(b, product // b) for b in every if b < setup.batch]


def wanted_batch(oom: CudaOom, setup: Setup) -> tuple[int, int] | None:
    """The largest batch that should fit: what is missing is taken from what grows with the batch (at most all of
    it)."""
    missing = max(0, oom.tried - oom.free)
    usable = max(1, oom.allocated)
    share = max(0.0, 1 - missing / usable)
    options = cheaper_batches(setup)
    return next((o for o in options if setup.batch and o[0] <= setup.batch * share), options[-1] if options else None)


def lines(oom: CudaOom, setup: Setup) -> tuple[str, ...]:
    """Changes in order of cost."""
    out = []
    if oom.fits_in_pieces:
        out.append(
            f"set {EXPANDABLE} (costs nothing): {size(oom.unused)} are reserved and unused, {size(oom.free)} are free, "
            f"{size(oom.tried)} were asked for"
        )
    best = wanted_batch(oom, setup)
    if best is not None and setup.batch:
        total = setup.batch * setup.accumulation * (setup.gpus or 1)
        over = f" on {setup.gpus} GPUs" if setup.gpus else ""
        out.append(f"batch {best[0]} per GPU with {best[1]} accumulation steps{over}: the global batch stays {total}")
    else:
        out.append(
            "a smaller batch per GPU with as many more accumulation steps (give `batch`, `accumulation`, `gpus` for "
            "numbers)"
        )
    if not setup.checkpointing:
        out.append("activation checkpointing: about a third more compute, a fraction of the activations")
    if not oom.fits_in_pieces:
        out.append(f"{EXPANDABLE} helps little here: only {size(oom.unused)} are reserved and unused")
    out.append("shard optimizer and parameters (FSDP, ZeRO), or more GPUs")
    return tuple(out)
