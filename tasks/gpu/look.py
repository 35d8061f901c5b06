"""Reads one node's GPUs and processes over a window, and the signs of progress at its two ends: once for all who need it in a sweep."""

from datetime import datetime
from typing import NamedTuple

from runbooks.core.reading import Known
from tasks.context import Context
from tasks.gpu.progress import ProgressLook, look_at_progress
from tasks.gpu.window import Window, read_window
from tasks.transport.base import TransportError


class Look(NamedTuple):
    """One look."""

    at: datetime
    before: ProgressLook
    window: Window
    after: ProgressLook


def read_look(context: Context, own: bool = True) -> Look:
    """The context's node. In a sweep the look of another who needed it counts as well, but where the node itself is judged
    (`own`) only one that got through. Raises TransportError."""
    if context.shared is None:
        return _look(context)
    age_s = context.limit("share_s", "zombie-gpu")
    found = context.shared.get(
        f"look at {context.target}", context.now, age_s, lambda: _or_error(context), lambda seen: not own or _got_through(seen)
    )
    if isinstance(found, TransportError):
        raise found
    return found


def _got_through(seen: Look | TransportError) -> bool:
    return isinstance(seen, Look) and isinstance(seen.window.look.processes, Known)


def _or_error(context: Context) -> Look | TransportError:
    try:
        return _look(context)
    except TransportError as e:
        return e


def _look(context: Context) -> Look:
    jobs, at = context.fleet.jobs_on(context.node.name), context.now()
    before = look_at_progress(context, jobs)
    window = read_window(context, jobs)
    return Look(at, before, window, look_at_progress(context, jobs) if window.asked_s else before)
