"""Whether a start that says nothing is slow, silent by nature, or late: phase, age of the newest line, work."""

from typing import TYPE_CHECKING

from runbooks.core.reading import Unknown, value_of, value_or
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.actors import INTERFACE, files_of, node_logs, ooms_of
from runbooks.ray.evidence import Evidence
from runbooks.ray.parsers.ray_log import is_of_setup
from runbooks.ray.phases import PhaseReached, default_phases, is_silent, late_after_s, reached
from runbooks.ray.words import cause
from runbooks.triage.text import meanings

if TYPE_CHECKING:
    from runbooks.ray.limits import Limits

NAN = {"loss-nan": ("ray-job/loss-nan",)}


def all_lines(e: Evidence) -> tuple[str, ...]:
    """Driver's lines, then every worker's, the least recently written file first."""
    files = sorted((f for n in node_logs(e) for f in files_of(n) if not is_of_setup(f.path)), key=lambda f: -f.age_s)
    return (*(value_of(e.driver_log) or ()), *(line for f in files for line in value_or(f.lines, ())))


def unread_logs(e: Evidence) -> tuple[str, ...]:
    """Nodes and files whose lines were not read: what they say is not known."""
    nodes = (f"all of {r.source.host if r.source else 'a node'}" for r in e.node_logs if isinstance(r, Unknown))
    folders = (f"all of {n.node}" for n in node_logs(e) if isinstance(n.logs, Unknown))
    files = (f"{f.node}:{f.path}" for n in node_logs(e) for f in files_of(n) if isinstance(f.lines, Unknown))
    return (*nodes, *folders, *files)


def judge_start(e: Evidence, limits: "Limits", quiet: bool) -> list[Cause]:
    """The phase and its pace. `quiet`: something else is wrong already, so slowness is its consequence."""
    lines = all_lines(e)
    for nan in meanings(lines, NAN).values():
        return [cause("loss-nan", Certainty.CONFIRMED, f"job {e.submission_id}", nan.evidence[-1].text[:200])]
    for network in meanings(lines, INTERFACE).values():
        said = network.evidence[0].text if network.evidence else ""
        names = {n.node: n.interfaces for n in node_logs(e)}
        words = "; ".join(f"{k}: {', '.join(v)}" for k, v in names.items())
        return [cause("nccl-interface", Certainty.LIKELY, f"job {e.submission_id}", said[:200], words,
                      decides=("NCCL_DEBUG=INFO on all nodes: which interface each chose",))]  # fmt: skip
    phases = e.phases or default_phases()
    where = reached(lines, phases)
    if where is None or quiet:
        return []
    return [_pace(e, where, limits)]


def _age(e: Evidence) -> float | None:
    ages = [f.age_s for n in node_logs(e) for f in files_of(n) if "/worker-" in f.path or "job-driver" in f.path]
    return min(ages, default=None)


def _working(e: Evidence, limits: "Limits") -> str:
    """What its processes do, in words; "" if nothing moves."""
    moving = [a for n in node_logs(e) for a in n.activity
              if a.cpu_s >= limits.cpu_moving_s or a.read_bytes >= limits.read_moving_bytes]  # fmt: skip
    busy = [g for n in node_logs(e) for g in n.gpu_use or () if g >= limits.gpu_busy_percent]
    words = [f"pid {a.pid} on {a.node}: {a.cpu_s:.1f} s CPU, {a.read_bytes >> 20} MiB read" for a in moving[:3]]
    return "; ".join([*words, *([f"{len(busy)} GPUs are busy"] if busy else [])])


def _pace(e: Evidence, where: PhaseReached, limits: "Limits") -> Cause:
    phases, age, work = e.phases or default_phases(), _age(e), _working(e, limits)
    subject, late = f"job {e.submission_id}", late_after_s(where, e.phases or default_phases())
    percent = f" ({where.percent}%)" if where.percent is not None else ""
    at = f"phase {where.index + 1} of {len(phases)}, {where.phase.name}{percent}: {where.line}"
    if age is None:
        return cause(
            "phase-unknown-pace", Certainty.POSSIBLE, subject, at, decides=("the workers' logs on their nodes",)
        )
    silent = f"newest line {age:.0f} s ago; late after {late:.0f} s"
    if age <= late:
        slug = "silent-phase" if is_silent(where, phases) and age > 30 else "start-moving"
        return cause(slug, Certainty.CONFIRMED, subject, at, silent, work, benign=True)
    if work:
        check = (f"another look in {late:.0f} s", "py-spy dump of the working process")
        return cause("phase-late", Certainty.POSSIBLE, subject, at, silent, f"but it works: {work}", decides=check)
    return _stalled(e, where, (at, silent), subject, limits)


def _silent(e: Evidence, words: tuple[str, str], subject: str) -> Cause:
    """Nothing of it moves, as far as that was read."""
    check = ("py-spy dump of a worker", "its GPU's memory and errors")
    blind = [n.node for n in node_logs(e) if n.gpu_use is None]
    unread = unread_logs(e)
    if unread:
        gap = f"no process of it uses CPU or disk; not read: {', '.join(unread[:4])}"
        return cause("phase-late", Certainty.POSSIBLE, subject, *words, gap, decides=("the logs that were not read", *check))
    if blind:
        gap = f"no process of it uses CPU or disk; the GPUs of {', '.join(blind[:4])} were not read"
        return cause("phase-late", Certainty.POSSIBLE, subject, *words, gap, decides=("use of its GPUs", *check))
    return cause("phase-late", Certainty.LIKELY, subject, *words, "no process of it uses CPU, disk or GPU", decides=check)


def _stalled(e: Evidence, where: PhaseReached, words: tuple[str, str], subject: str, limits: "Limits") -> Cause:
    loading = where.percent is not None and where.percent < 100
    if not loading:
        return _silent(e, words, subject)
    kills = [k for n in node_logs(e) for k in ooms_of(n)]
    full = [n for n in node_logs(e) if n.disk_free_bytes is not None and n.disk_free_bytes < limits.disk_free_min_bytes]
    stuck = [a for n in node_logs(e) for a in n.activity if a.state == "D"]
    why = [f"kernel: {kills[-1].text}"] if kills else []
    why += [f"{full[0].node} has {(full[0].disk_free_bytes or 0) >> 20} MiB of disk free"] if full else []
    why += [f"pid {stuck[0].pid} on {stuck[0].node} waits for its disk (state D)"] if stuck else []
    sure = Certainty.CONFIRMED if why else Certainty.LIKELY
    check = () if why else ("disk and network throughput of the model's folder", "the kernel log")
    return cause("shards-stalled", sure, subject, *words, *why, decides=check)
