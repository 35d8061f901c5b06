"""Judges who holds the memory when it runs out: this process, another one, another tenant, the host. Changes
nothing. Pure."""

import re
from collections.abc import Iterator
from functools import cache

from runbooks.core.base import Frozen
from runbooks.core.knowledge import Runbook, load_runbook
from runbooks.core.reading import Known, Unknown
from runbooks.core.rules import by_the_rules
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.memory_pressure import advice
from runbooks.memory_pressure.evidence import Evidence
from runbooks.parsers.cuda_oom import CudaOom, HostOom
from runbooks.triage.text import findings_of


class Limits(Frozen):
    """Values come from runbook.yaml and the fleet file."""

    elsewhere_share: float
    elsewhere_bytes: int
    fragment_share: float
    cgroup_share: float


@cache
def book() -> Runbook:
    """This runbook's knowledge."""
    return load_runbook("memory-pressure")


@by_the_rules("memory-pressure")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment."""
    found = (*_host(evidence, limits), *_cuda(evidence, limits), *_snapshot(evidence))
    causes = tuple(sorted(found, key=lambda c: list(Certainty).index(c.certainty)))
    unknowns = tuple(
        f"{n}: {r.reason} {r.detail}".strip()
        for n, r in (
            ("log", evidence.log),
            ("gpus", evidence.gpus),
            ("host", evidence.host),
            ("killed", evidence.killed),
        )
        if isinstance(r, Unknown)
    )
    seen = evidence.log.value.cuda if isinstance(evidence.log, Known) else ()
    told = causes and causes[0].certainty is not Certainty.POSSIBLE
    must_not = tuple(dict.fromkeys(m for c in causes for m in book().causes[c.slug].must_not))
    return Diagnosis(
        state=State.SICK if told else State.CANNOT_TELL if causes or isinstance(evidence.log,
        Unknown) else State.HEALTHY,
        headline=_headline(causes),
        symptom=seen[-1].text[:300] if seen else "",
        causes=causes,
        must_not=must_not or ("end a process on a GPU because it holds memory",),
        do_now=_do_now(evidence, causes, seen),
        findings=tuple(
            Finding(priority="HIGH", category="memory", issue=f"{book().causes[c.slug].title}: {c.subject}",
            action=book().causes[c.slug].remedy)
            for c in causes
        ) + _told(evidence, causes),
        unknowns=unknowns,
        by_hand=("nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv",
        "ls -l /proc/*/fd 2>/dev/null | grep nvidia"),
    )  # fmt: skip


def _told(evidence: Evidence, causes: tuple[Cause, ...]) -> tuple[Finding, ...]:
    """What else the job's log says, by the whole knowledge: memory may not be what ended it."""
    words = evidence.log.value.words if isinstance(evidence.log, Known) else ()
    return findings_of(words, "its log", "memory-pressure", (c.slug for c in causes))


def _headline(causes: tuple[Cause, ...]) -> str:
    if not causes:
        return "No sign of memory running out"
    return f"{book().causes[causes[0].slug].title}: {causes[0].evidence[0]}"


def _do_now(evidence: Evidence, causes: tuple[Cause, ...], seen: tuple[CudaOom, ...]) -> tuple[str, ...]:
    out = list(dict.fromkeys(book().causes[c.slug].remedy for c in causes if c.certainty is not Certainty.POSSIBLE))
    if seen and causes and causes[0].slug in ("model-too-large", "fragmented"):
        out += [f"{n}. {line}" for n, line in enumerate(advice.lines(seen[-1], evidence.setup), 1)]
    return tuple(out)


def _cause(slug: str, sure: Certainty, subject: str, *words: str, decides: tuple[str, ...] = ()) -> Cause:
    return Cause(slug=slug, certainty=sure, subject=subject, evidence=words, decides=decides)


def _cuda(evidence: Evidence, limits: Limits) -> Iterator[Cause]:
    if not isinstance(evidence.log, Known):
        return
    log = evidence.log.value
    ranks = {o.rank for o in log.cuda if o.rank is not None}
    if log.cuda:
        oom = log.cuda[-1]
        outside = oom.elsewhere > max(limits.elsewhere_share * oom.total, limits.elsewhere_bytes)
        if _ranks_on_one(evidence, oom):
            words = (
                f"GPU {oom.gpu} ran out for ranks {', '.join(map(str, sorted(ranks)))}"
                if len(ranks) > 1
                else _pids(oom)
            )
            yield _cause(
                "ranks-on-one-gpu",
                Certainty.LIKELY,
                f"GPU {oom.gpu}",
                words,
                "a checkpoint was loaded before" if log.resumed else "",
            )
        elif outside:
            yield _outside(evidence, oom)
        elif oom.unused >= oom.tried and oom.unused > limits.fragment_share * oom.total:
            words = f"{oom.unused} bytes are reserved and unused, {oom.tried} were asked for, {oom.free} are free"
            yield _cause("fragmented", Certainty.LIKELY, f"GPU {oom.gpu}", words)
        else:
            words = (
                f"this process holds {oom.mine} of {oom.total} bytes and asks for {oom.tried} more; "
                f"{oom.elsewhere} are held elsewhere"
            )
            yield _cause("model-too-large", Certainty.CONFIRMED, f"GPU {oom.gpu}", words)
    elif log.bare:
        decides = ("the full message with its numbers", "nvidia-smi at that moment")
        yield _cause(
            "out-of-memory-bare",
            Certainty.POSSIBLE,
            evidence.node,
            "the log says out of memory without numbers",
            decides=decides,
        )


def _ours(evidence: Evidence, pid: int) -> bool:
    known = evidence.commands.value if isinstance(evidence.commands, Known) else {}
    return pid in known and any(re.search(p, known[pid]) for p in evidence.job_match)


def _ranks_on_one(evidence: Evidence, oom: CudaOom) -> bool:
    """Several ranks failed on one GPU, or the message names several processes of the job there."""
    same = [o for o in evidence.log.value.cuda if o.gpu == oom.gpu] if isinstance(evidence.log, Known) else []
    several = len({o.rank for o in same if o.rank is not None}) > 1
    return several or sum(_ours(evidence, o.pid) for o in oom.others) >= 2


def _pids(oom: CudaOom) -> str:
    return f"GPU {oom.gpu} holds memory of pids {', '.join(str(o.pid) for o in oom.others)}, all of this job"


def _outside(evidence: Evidence, oom: CudaOom) -> Cause:
    words = (
        f"{oom.total} bytes in all, {oom.free} free, {oom.mine} in this process: {oom.elsewhere} are held by others",
        *(f"pid {o.pid} holds {o.bytes}" for o in oom.others[:8]),
        *_holders(evidence, oom),
    )
    visible = _holders(evidence, oom) or any(
        isinstance(evidence.commands, Known) and o.pid in evidence.commands.value for o in oom.others
    )
    slug = "gpu-held-by-others" if visible or not isinstance(evidence.gpus, Known) else "held-by-another-tenant"
    decides = ("who holds it, seen from the host (not from a container), and whether it works",)
    return _cause(slug, Certainty.CONFIRMED, f"GPU {oom.gpu}", *words, decides=decides)


def _holders(evidence: Evidence, oom: CudaOom) -> tuple[str, ...]:
    """Who the driver names on that GPU now."""
    if not isinstance(evidence.gpus, Known):
        return ()
    found = [g for g in evidence.gpus.value.gpus if g.index == oom.gpu and isinstance(g.processes, Known)]
    known = evidence.commands.value if isinstance(evidence.commands, Known) else {}
    return tuple(
        f"now pid {p.pid} holds {p.used_bytes} bytes there: {known.get(p.pid, 'command not visible')[:120]}"
        for g in found
        if isinstance(g.processes, Known)
        for p in g.processes.value
    )


def _host(evidence: Evidence, limits: Limits) -> Iterator[Cause]:
    if isinstance(evidence.killed, Known):
        for k in evidence.killed.value[-3:]:
            where = "the cgroup's limit" if k.cgroup else "the machine's memory"
            words = f"the kernel killed pid {k.pid} ({k.name}) with {k.rss} bytes resident: {where} was used up"
            decides = ("whether that process was the job's: pid and time against its log",)
            yield _cause("host-oom", _how_sure(evidence, k), f"{evidence.node}, {k.name}", words, decides=decides)
    if isinstance(evidence.host, Known):
        h = evidence.host.value
        if h.cgroup_limit and h.cgroup_used and h.cgroup_used > limits.cgroup_share * h.cgroup_limit:
            words = f"{h.cgroup_used} of {h.cgroup_limit} bytes of the cgroup are used"
            yield _cause("host-oom", Certainty.LIKELY, evidence.node, words)


def _how_sure(evidence: Evidence, killed: HostOom) -> Certainty:
    """A kill since boot may have hit anything; the job's log or the process's name ties it to the job."""
    job = killed.name.startswith(("python", "pt_", "torchrun", "ray::"))
    said = isinstance(evidence.log, Known) and evidence.log.value.killed
    if job and said:
        return Certainty.CONFIRMED
    return Certainty.LIKELY if job or said else Certainty.POSSIBLE


def _snapshot(evidence: Evidence) -> Iterator[Cause]:
    if isinstance(evidence.log, Known) and evidence.log.value.snapshot:
        s = evidence.log.value.snapshot
        words = [f"a snapshot needs {s.needed} bytes, {s.available} are allowed"]
        if isinstance(evidence.host, Known):
            fits = evidence.host.value.available > 2 * s.needed
            words.append(
                f"{evidence.host.value.available} bytes of host memory are available: "
                f"{'enough' if fits else 'not enough'} to raise it"
            )
        yield _cause("snapshot-limit", Certainty.CONFIRMED, evidence.node, *words)
