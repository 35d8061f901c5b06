"""A stopped process as a probe read it, as the judgments' type."""

from collections.abc import Mapping, Sequence
from typing import Any

from runbooks.core.halted import Halted
from tasks.context import Context


def halted_process(context: Context, read: Mapping[str, Any] | None) -> Halted | None:
    """Its identity, with the secrets of its command line replaced; None where nothing is stopped."""
    return None if read is None else Halted.model_validate({**read, "command": context.redactor.text(read["command"])})


def halted_processes(context: Context, read: Sequence[Mapping[str, Any]]) -> tuple[Halted, ...]:
    """Each of them."""
    return tuple(one for one in (halted_process(context, x) for x in read) if one)
