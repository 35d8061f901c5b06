"""Whether the pod's own start may still be at work: what moves or was begun lately in the pod, and what its start script says."""

from runbooks.parsers.runpod import LogEvent, read_log_line
from runbooks.spawning.evidence import PodInside
from runbooks.spawning.parsers.orchestrator_log import line_time
from runbooks.spawning.view import SpawningView

STILL_SHARE = 0.02  # of one core: less is what an idle service uses
STILL_BYTES = 64 << 10  # read and written while we looked: less is what an idle service does


def start_at_work(v: SpawningView, i: PodInside) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what shows, or leaves open, that the start goes on; what decides). Both empty: nothing in the pod is at work on it.

    A line without a time says nothing where the processes were read: a start script that is done leaves one too."""
    seen = (*_processes(v, i), *_words(v, i.others is None))
    if not seen:
        return (), ()
    return seen, ("the pod's processes, twice: what does its start script wait for?", "two looks at the pod's log: does it go on?")


def _processes(v: SpawningView, i: PodInside) -> tuple[str, ...]:
    if i.others is None:
        return ("which processes belong to the pod's own start was not read",)
    said = []
    for p in i.others:
        moves = p.cpu_s > STILL_SHARE * i.watched_s or p.io_bytes > STILL_BYTES
        if moves or (p.age_s < v.limits.boot_s and not p.first):
            how = f"used {p.cpu_s:.2f} s of CPU and moved {p.io_bytes >> 10} KiB in {i.watched_s:.1f} s" if moves else "is still there"
            said.append(f"pid {p.pid} ({p.command[:60]}), started {p.age_s:.0f} s ago, {how}")
    return tuple(said[:4])


def _words(v: SpawningView, undated: bool) -> tuple[str, ...]:
    """What the container itself wrote last, unless its time says that it is long quiet; `undated`: without a time as well."""
    began = max((n for n, line in enumerate(v.log) if read_log_line(line) is LogEvent.STARTED), default=-1)
    own = [line.strip() for line in v.log[began + 1 :] if line.strip()]
    if not own:
        return ()
    age = v.age(line_time(own[-1]))
    if not undated if age is None else age >= v.limits.boot_s:
        return ()
    when = "without a time" if age is None else f"{age:.0f} s old"
    return (f"the last line of the pod's log, {when}: {own[-1][:200]}",)
