"""Sums over the numbers of one message that signatures ask for: each is judged in one place, which the runbooks ask too."""

from functools import cache

from runbooks.core.base import Frozen
from runbooks.core.knowledge import load_runbook
from runbooks.parsers.cuda_oom import parse_piece, who_fills


class _Limits(Frozen):
    """As memory-pressure has them without a fleet file."""

    elsewhere_share: float
    elsewhere_bytes: int
    fragment_share: float


@cache
def _limits() -> _Limits:
    every = load_runbook("memory-pressure").limit_values()
    return _Limits.model_validate({name: every[name] for name in _Limits.model_fields})


def fills(message: str) -> str:
    """The cause that an out-of-memory message of CUDA names by its numbers; "" where it does not hold them."""
    oom = parse_piece(message)
    return who_fills(oom, _limits()) if oom else ""
