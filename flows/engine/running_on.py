"""Whether the command of a step that failed may still be at work on its machine."""

from runbooks.core.reading import UnknownReason
from tasks.context import ActionRefused
from tasks.transport.base import TransportError

OURS = (TransportError, ActionRefused, RuntimeError, ValueError, LookupError, TypeError, AttributeError)


def may_run_on(error: BaseException) -> bool:
    """True unless it is known that nothing of the failed step is at work any more."""
    seen: BaseException | None = error
    while seen is not None:
        if not isinstance(seen, (*OURS, FileNotFoundError, FileExistsError, PermissionError)):
            return True
        if isinstance(seen, TransportError) and _no_end_seen(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _no_end_seen(error: TransportError) -> bool:
    if "left running" in error.detail or error.reason is UnknownReason.UNREACHABLE:
        return True
    return error.reason is UnknownReason.TIMED_OUT and "it was ended" not in error.detail
