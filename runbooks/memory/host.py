"""Whose host memory ran out, by the numbers: a control group's limit (container, job, service), some NUMA nodes, or the machine."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause, Certainty
from runbooks.memory import window
from runbooks.memory.evidence import Evidence, HostMemory, MemoryGroup
from runbooks.memory.parsers.control_group import whose
from runbooks.memory.parsers.kernel_ooms import HostOom

if TYPE_CHECKING:
    from runbooks.memory.limits import Limits

_RANK = list(Certainty).index


def host_causes(evidence: Evidence, limits: "Limits") -> Iterator[Cause]:
    """Kills of the time that is asked about first, each place once; then what is nearly full now."""
    hit = {k.group for k in window.kills(evidence) if k.cgroup}
    for place, group in groupby(sorted(window.within(evidence, limits), key=_place), key=_place):
        yield _killed(evidence, place, sorted(group, key=lambda k: k.at.timestamp() if k.at else 0.0)[-3:], limits)
    for g in evidence.groups.value if isinstance(evidence.groups, Known) else ():
        full = g.used > limits.cgroup_share * g.limit
        if full or not (any(path.endswith(g.path) for path in hit) or _long_ago(evidence, g, limits)):
            yield _group(evidence, g)
    if isinstance(evidence.host, Known):
        yield from _now(evidence, evidence.host.value, limits)


def _place(kill: HostOom) -> str:
    if kill.cgroup:
        return f"cgroup-oom {kill.group}"
    return "host-oom numa" if kill.numa else "host-oom" if kill.told else "host-oom untold"


def _killed(evidence: Evidence, place: str, kills: Sequence[HostOom], limits: "Limits") -> Cause:
    """The kills of one place as one cause. The surest of them counts: it may be the job's."""
    slug, _, group = place.partition(" ")
    words = tuple(window.kill_words(k) for k in kills)
    sure, why = min((_how_sure(evidence, k, limits) for k in kills), key=lambda s: _RANK(s[0]))
    where = whose(group) if slug == "cgroup-oom" else "the machine"
    if group in ("numa", "untold"):
        sure = max(sure, Certainty.LIKELY, key=_RANK)
    decides = () if sure is Certainty.CONFIRMED else ("whether that process was the job's: pid and time against its log",)
    subject = f"{evidence.node}, {where}"
    return Cause(slug=slug, certainty=sure, subject=subject, evidence=(*words[-1:], *words[:-1], *_scope(evidence, kills[-1], group), why),
                 decides=decides)  # fmt: skip


def _scope(evidence: Evidence, k: HostOom, group: str) -> tuple[str, ...]:
    """What says that it was this place's memory and not another's."""
    host = evidence.host.value if isinstance(evidence.host, Known) else None
    now = f"; now {size(host.available)} of the machine's {size(host.total)} are available" if host else ""
    if k.cgroup and k.limit is not None and k.used is not None:
        rest = k.used - k.rss
        others = f"; {size(rest)} of it were held by others in it" if k.rss and rest > 0.5 * k.used else ""
        return (f"{whose(k.group)} used {size(k.used)} of its limit of {size(k.limit)}{others}{now}",)
    if k.cgroup:
        return (f"the limit of {whose(k.group)} was reached, not the machine's memory{now}",)
    if group == "numa":
        return (f"only the memory of the NUMA nodes that it may use was used up{now}",)
    if group == "untold":
        return (f"the kernel log no longer says whether a limit or the machine's memory was used up{now}",)
    return (f"no limit was reached: the machine's memory was used up at that moment{now}",)


def _how_sure(evidence: Evidence, killed: HostOom, limits: "Limits") -> tuple[Certainty, str]:
    """A sweep asks whether the kernel killed; by hand name, the job's log and the time tie a kill to the job. Where nobody names
    a log, the machine is asked about."""
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    ago = f"that was {window.span(window.apart(evidence, killed) or 0.0)} before this look"
    if evidence.since:
        return (Certainty.LIKELY if killed.pid is None else Certainty.CONFIRMED), ago
    if _no_job(evidence) and killed.at and (killed.cgroup or killed.told):
        return Certainty.LIKELY, f"{ago}, and no job's log was named"
    line = window.named(evidence, killed)
    if line and not window.near(evidence, killed, limits):
        later = window.span(window.apart(evidence, killed) or 0.0)
        return Certainty.LIKELY, f"its log names that process, and ends {later} after it: {line[:200]}"
    job = killed.name.startswith(("python", "pt_", "torchrun", "ray::"))
    said = log is not None and log.killed
    apart = window.apart(evidence, killed)
    if job and said and apart is not None and log is not None and log.written_at:
        return Certainty.CONFIRMED, f"its log ends {window.span(apart)} {_side(log.written_at, killed.at)} it and says that it was killed"
    if job or said:
        return Certainty.LIKELY, "its log says that it was killed" if said else f"{killed.name} is what a job's process is called"
    return Certainty.POSSIBLE, f"nothing ties {killed.name or 'it'} to the job"


def _no_job(evidence: Evidence) -> bool:
    """No log was named: one that could not be read is another matter."""
    log = evidence.log
    return isinstance(log, Absent) or (isinstance(log, Unknown) and log.reason is UnknownReason.NOT_ASKED)


def _side(one: datetime | None, other: datetime | None) -> str:
    return "before" if one and other and one < other else "after"


def _long_ago(evidence: Evidence, g: MemoryGroup, limits: "Limits") -> bool:
    """Whether the kills that a group counts were before the time that is asked about: by its last count, or by the kernel log,
    which reaches back so far and names none."""
    if evidence.since and g.new_kills is not None:
        return not g.new_kills
    return evidence.log_from is not None and evidence.log_from <= window.starts(evidence, limits)


def _group(evidence: Evidence, g: MemoryGroup) -> Cause:
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    words = [f"{whose(g.path)} uses {size(g.used)} of its limit of {size(g.limit)}, page cache not counted"]
    if g.kills:
        words.append(f"the kernel killed {g.new_kills} processes in it for memory since the last sweep" if g.new_kills
                     else f"the kernel killed {g.kills} processes in it for memory since it exists; when is not known")  # fmt: skip
    if isinstance(evidence.host, Known):
        words.append(f"the machine has {size(evidence.host.value.available)} of {size(evidence.host.value.total)} available")
    sure = Certainty.LIKELY if not g.kills or g.new_kills or (log and log.killed) else Certainty.POSSIBLE
    decides = ("whether the job runs in it: /proc/PID/cgroup", f"memory.peak and memory.events of {g.path}")
    return Cause(slug="cgroup-oom", certainty=sure, subject=f"{evidence.node}, {whose(g.path)}", evidence=tuple(words), decides=decides)


def _now(evidence: Evidence, h: HostMemory, limits: "Limits") -> Iterator[Cause]:
    if h.cgroup_limit and h.cgroup_used and h.cgroup_used > limits.cgroup_share * h.cgroup_limit:
        words = f"{size(h.cgroup_used)} of the {size(h.cgroup_limit)} that this container may use are used"
        yield Cause(slug="cgroup-oom", certainty=Certainty.LIKELY, subject=evidence.node, evidence=(words,),
                    decides=("memory.events of the group: kills, and the job's own pid in it",))  # fmt: skip
    if h.total and h.available < limits.available_share * h.total:
        words = f"{size(h.available)} of the machine's {size(h.total)} are available"
        yield Cause(slug="host-oom", certainty=Certainty.LIKELY, subject=evidence.node, evidence=(words,),
                    decides=("who holds it: ps -eo rss,pid,args --sort=-rss | head",))  # fmt: skip
