"""Reads GPUs and processes of one node over one window, so that what both say is of the same time."""

from typing import NamedTuple

from runbooks.core.fleet import Job
from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import Absent, Known, Unknown, value_or
from tasks.context import Context
from tasks.diagnostic import ReaderPool
from tasks.gpu.processes import ProcessReadings, read_processes
from tasks.remote.gpus import Gpus, Presence, read_gpus, read_presence


class Window(NamedTuple):
    """One look."""

    gpus: Gpus
    look: ProcessReadings
    asked_s: float  # how long it was to last; 0 where there is no GPU


def read_window(context: Context, jobs: tuple[Job, ...]) -> Window:
    """The context's node. GPUs that gave no answer once are not asked again."""
    presence = read_presence(context)
    first = presence if isinstance(presence, Unknown) else read_gpus(context, presence, 0, 1)
    window_s = 0.0 if isinstance(first, Absent) else context.limit("window_s", "zombie-gpu")
    return Window(*_over(context, presence, first, window_s, jobs), window_s)


def _over(
    context: Context, presence: Presence | Unknown, first: Gpus, window_s: float, jobs: tuple[Job, ...]
) -> tuple[Gpus, ProcessReadings]:
    pids = pids_of(first)
    if isinstance(presence, Unknown) or not isinstance(first, Known) or not window_s:
        return first, read_processes(context, window_s, pids, jobs)
    samples = int(context.limit("samples", "zombie-gpu"))
    with ReaderPool(max_workers=1) as pool:
        gpus = pool.submit(read_gpus, context, presence, window_s, samples)
        look = read_processes(context, window_s, pids, jobs)
        return gpus.result(), look


def pids_of(gpus: Gpus) -> tuple[int, ...]:
    """Every PID that the driver names."""
    sets = value_or(gpus, GpuSet(gpus=()))
    return tuple(sorted({p.pid for g in sets.gpus for p in value_or(g.processes, ())}))
