"""Judges which limit of a node is used up, and whether its clock and names are right. Changes nothing. Pure."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from runbooks.core.base import Frozen
from runbooks.core.headline import of_cause
from runbooks.core.judgment import diagnosis, findings, ordered, state_of
from runbooks.core.program import brief
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.reading_words import label
from runbooks.core.rules import book as book_of
from runbooks.core.rules import by_the_rules
from runbooks.core.sizes import size
from runbooks.core.times import utc
from runbooks.core.unread import missing
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding
from runbooks.host import advice
from runbooks.host.evidence import Evidence, Gauge, Name

OF = {"files": "fd-limit", "threads": "thread-limit", "shm": "shm-too-small", "inotify": "inotify-limit",
        "locked": "limit-locked-memory", "disks": "file-system-full"}  # fmt: skip
MAY_LACK = ("smart", "keeper")
MUST_NOT = (
    "raise limits machine-wide to be safe: nothing was seen at its limit, and a leak would only grow larger",
    "restart the node: what is not at its limit is not cured by it",
)
WHO = Certainty.CONFIRMED, Certainty.LIKELY
MOST = 5  # of one cause
Told = tuple[Cause, tuple[str, ...]]  # with the commands against it
SMALL = {
    "bytes": "{} is what a container gets unasked, and a job of the fleet runs in it",
    "locked bytes": "{} is no more than what a process gets unasked, and this one has an RDMA device open, for which memory is locked",
}
SLUG = "host-limits"
book = partial(book_of, SLUG)


class Limits(Frozen):
    """Values come from runbook.yaml and the fleet file."""

    refused_old_s: float
    confirmed_share: float
    possible_share: float
    clock_confirmed_s: float
    clock_possible_s: float
    disk_confirmed_share: float
    disk_likely_share: float
    disk_room_bytes: int
    slow_name_s: float


@by_the_rules("host-limits")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment."""
    found = [*_gauges(evidence, limits), *_failed(evidence), *_clock(evidence, limits), *_names(evidence, limits)]
    causes, own = ordered(SLUG, (c for c, _ in found)), _unknowns(evidence)
    unknowns = (*missing(evidence), *own)
    return diagnosis(
        SLUG,
        causes,
        state=state_of(causes, blind=unknowns),
        headline=_headline(evidence, causes, unknowns),
        must_not=() if causes else MUST_NOT,
        findings=(*(f for c in causes for f in findings(SLUG, (c,), f"{SLUG}/{c.slug}")), *_asides(evidence), *_old(evidence)),
        unknowns=own,
        by_hand=tuple(line for _, lines in sorted(found, key=lambda pair: causes.index(pair[0])) for line in lines)
        or ("sysctl fs.file-nr fs.inotify kernel.threads-max kernel.pid_max; df -h /dev/shm; date -u",),
    )


def _gauges(evidence: Evidence, limits: Limits) -> Iterator[Told]:
    """The fullest of each kind; a limit that many processes share, and many alike processes, are not told many times."""
    for group, slug in OF.items():
        reading = getattr(evidence, group)
        read = sorted(reading.value if isinstance(reading, Known) else (), key=_share, reverse=True)
        once = {(g.subject, g.of, g.limit): g for g in reversed(read)}.values()
        judged = _full if group == "disks" else partial(_judged, before=evidence.before)
        near = [(g, *found) for g in sorted(once, key=_share, reverse=True) if (found := judged(g, limits))[0]]
        for n, (g, sure, words) in enumerate(near[:MOST], 1):
            more = (f"and {len(near) - n} more like it",) if n == MOST and len(near) > n else ()
            decides = () if sure is Certainty.CONFIRMED else book().causes[slug].decided_by
            cause = Cause(slug=slug, certainty=sure, subject=g.subject, evidence=(*words, *more), decides=decides)
            yield cause, advice.steps(slug, g)


def _share(g: Gauge) -> float:
    return g.used / g.limit if g.limit else 0.0


def _judged(g: Gauge, limits: Limits, before: datetime | None) -> tuple[Certainty | None, tuple[str, ...]]:
    """How sure it is that this limit is the trouble, and the numbers that say so."""
    if not g.limit:
        return None, ()
    share = _share(g)
    words = [f"{g.subject} has {g.in_words} ({100 * share:.0f} %): {g.setting}"]
    if g.refused:
        words.append(_refused(g, before))
    if g.default and g.of in SMALL:
        words.append(SMALL[g.of].format(size(g.limit)))
    if share >= limits.confirmed_share:
        return Certainty.CONFIRMED, tuple(words)
    possible = share >= limits.possible_share or g.refused > (g.refused_before or 0) or g.default
    return (Certainty.POSSIBLE if possible else None), tuple(words)


def _refused(g: Gauge, before: datetime | None) -> str:
    """How often the kernel said no, and when."""
    if g.refused_before is None or before is None:
        return f"the kernel refused {g.refused} times since that group exists, at a time that is not known"
    at, new = utc(before), g.refused - g.refused_before
    if not new:
        return f"the kernel refused {g.refused} times, all before {at}: that is old"
    return f"the kernel refused {new} times since {at}" + (f", and {g.refused_before} times before" if g.refused_before else "")


def _old(evidence: Evidence) -> Iterator[Finding]:
    """What was refused, and not again since the earlier look: told, and nobody is called for it."""
    for g in evidence.threads.value if isinstance(evidence.threads, Known) else ():
        if g.refused and g.refused == g.refused_before:
            issue = f"{g.subject} has {g.in_words} now; {_refused(g, evidence.before)}"
            yield Finding(priority="LOW", category="host-limits/thread-limit", issue=issue, action="Nothing, unless it comes again.")


def _full(g: Gauge, limits: Limits) -> tuple[Certainty | None, tuple[str, ...]]:
    """Of a large disk a small share is still much."""
    share = _share(g)
    words = (f"{g.subject} uses {g.in_words} ({100 * share:.1f} %) of what ordinary users may use: {g.setting}",)
    if share >= limits.disk_confirmed_share:
        return Certainty.CONFIRMED, words
    scarce = g.of == "inodes" or (g.limit or 0) - g.used < limits.disk_room_bytes
    return (Certainty.LIKELY if share >= limits.disk_likely_share and scarce else None), words


def _failed(evidence: Evidence) -> Iterator[Told]:
    for slug, reading in (("file-system-failed", evidence.failed), ("disk-failing", evidence.smart)):
        for f in reading.value if isinstance(reading, Known) else ():
            yield Cause(slug=slug, certainty=Certainty.CONFIRMED, subject=f.subject, evidence=(f.said,)), advice.for_disk(slug, f)


def _clock(evidence: Evidence, limits: Limits) -> Iterator[Told]:
    if not isinstance(evidence.clock, Known):
        return
    c = evidence.clock.value
    off = max(c.least_s, -c.most_s, 0.0)
    if off < limits.clock_possible_s:
        return
    way = "ahead of" if c.least_s > 0 else "behind"
    words = f"{evidence.node} is at least {off:.1f} s {way} the asking machine (the time of the way taken off)"
    sure = Certainty.CONFIRMED if off >= limits.clock_confirmed_s else Certainty.POSSIBLE
    decides = ("a third clock: which of the two is wrong",)
    cause = Cause(slug="clock-skew", certainty=sure, subject=evidence.node, evidence=(words,), decides=decides)
    yield cause, advice.CLOCK


def _names(evidence: Evidence, limits: Limits) -> Iterator[Told]:
    for n in evidence.names.value if isinstance(evidence.names, Known) else ():
        late = n.said == "resolved" and n.seconds >= limits.slow_name_s
        if (late or n.said != "resolved") and not _aside(n):
            slug, sure = "name-not-resolved", _late(n) if late else _sure(n)
            decides = () if sure is Certainty.CONFIRMED else _decides(n, late)
            only, less = ("only ", ": a program that waits less than that ends without it") if late else ("", "")
            words = (f"{n.name}: {n.said} {only}after {n.seconds:g} s on {evidence.node} ({n.why}){less}", *_servers(n, late))
            yield Cause(slug=slug, certainty=sure, subject=n.name, evidence=words, decides=decides), advice.for_name(n)


def _aside(n: Name) -> bool:
    """The resolver works, and does not know a name that this node may never ask for."""
    return not n.needed and n.said == "no such name"


def _asides(evidence: Evidence) -> Iterator[Finding]:
    if isinstance(evidence.keeper, Known) and not evidence.keeper.value.kept:
        issue = f"nothing keeps the clock of {evidence.node} in time (the kernel calls it unsynchronised)"
        yield Finding(priority="LOW", category="host-limits/clock-skew", issue=issue, action="Run chrony or systemd-timesyncd there.")
    for n in evidence.names.value if isinstance(evidence.names, Known) else ():
        if _aside(n):
            issue = f"{n.name} ({n.why}): {n.said} on {evidence.node}"
            action = "Nothing, unless something on this node asks for that name."
            yield Finding(priority="LOW", category="host-limits/name-not-resolved", issue=issue, action=action)


def _sure(n: Name) -> Certainty:
    """A refusal of a name that this node needs is seen; a silence may be short, or about a name nobody asks for."""
    if not n.needed:
        return Certainty.POSSIBLE
    return Certainty.LIKELY if n.said == "timed out" else Certainty.CONFIRMED


def _late(n: Name) -> Certainty:
    """It resolves, later than a resolver waits for one server: a server that is silent now as well explains it."""
    return Certainty.LIKELY if n.needed and any(s.silent for s in n.servers) else Certainty.POSSIBLE


def _decides(n: Name, late: bool) -> tuple[str, ...]:
    asks = ("whether anything on this node asks for that name",)
    if not late:
        return asks
    return ("how long the same look-up takes again, and how long the program waits for it", *(() if n.needed else asks))


def _servers(n: Name, late: bool) -> tuple[str, ...]:
    if not n.servers:
        return ("what its name servers say was not read",) if late else ("/etc/resolv.conf names no server that could be asked",)
    return tuple(f"name server {s.address}: {s.said}" for s in sorted(n.servers, key=lambda s: late and not s.silent))


def _unknowns(evidence: Evidence) -> tuple[str, ...]:
    """What is open besides the readings that failed: what is not there, and single limits."""
    absent = [f"{label(Evidence, name)}: {r.proof}" for name in Evidence.model_fields
              if name not in MAY_LACK and isinstance(r := getattr(evidence, name), Absent)]  # fmt: skip
    return (*absent, *(f"{u.what}: {Unknown(reason=u.reason, detail=u.detail).why}" for u in evidence.unread))


def _in_short(cause: Cause) -> str:
    """The numbers that say so; what sets the limit and the whole command line stand below."""
    said, percent, _ = cause.evidence[0].replace(cause.subject, brief(cause.subject), 1).partition(" %)")
    return said + percent


def _headline(evidence: Evidence, causes: tuple[Cause, ...], unknowns: tuple[str, ...]) -> str:
    if causes:
        near = "" if causes[0].certainty in WHO else "Perhaps"
        return of_cause(book(), causes[0], near, words=_in_short(causes[0]), more=len(causes) - 1)
    if unknowns and not any(isinstance(getattr(evidence, name), Known) for name in Evidence.model_fields):
        return f"Nothing of {evidence.node} was read: {unknowns[0]}"
    if unknowns:
        return f"{len(unknowns)} readings are missing; nothing else of {evidence.node} is near a limit"
    read = [g for name in OF if isinstance(r := getattr(evidence, name), Known) for g in r.value if g.limit]
    most = max(read, key=_share, default=None)
    top = f"; nearest: {brief(most.subject)}, {most.in_words}" if most else ""
    return f"Nothing of {evidence.node} is near a limit ({len(read)} limits read{top})"
