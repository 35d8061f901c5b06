"""Reads one node's GPUs and processes over a window, and the signs of progress at its two ends: once for all who need it in a sweep."""

from datetime import datetime
from typing import NamedTuple

from runbooks.core.reading import Known
from tasks.context import Context
from tasks.gpu.progress import ProgressFacts, read_progress
from tasks.gpu.window import Window, read_window
from tasks.transport.base import TransportError


class GpuObservation(NamedTuple):
    """One look."""

    at: datetime
    before: ProgressFacts
    window: Window
    after: ProgressFacts


def read_observation(context: Context, own: bool = True) -> GpuObservation:
    """The context's node. In a sweep the look of another who needed it counts as well, but where the node itself is judged
    (`own`) only one that got through. Raises TransportError."""
    if context.shared is None:
        return _observe(context)
    age_s = context.limit("share_s", "zombie-gpu")
    found = context.shared.get(
        f"look at {context.target}", context.now, age_s, lambda: _or_error(context), lambda seen: not own or _got_through(seen)
    )
    if isinstance(found, TransportError):
        raise found
    return found


def _got_through(seen: GpuObservation | TransportError) -> bool:
    return isinstance(seen, GpuObservation) and isinstance(seen.window.look.processes, Known)


def _or_error(context: Context) -> GpuObservation | TransportError:
    try:
        return _observe(context)
    except TransportError as e:
        return e


def _observe(context: Context) -> GpuObservation:
    jobs, at = context.fleet.jobs_on(context.node.name), context.now()
    before = read_progress(context, jobs)
    window = read_window(context, jobs)
    return GpuObservation(at, before, window, read_progress(context, jobs) if window.asked_s else before)
