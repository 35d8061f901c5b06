"""Judges who holds the memory when it runs out: this process, another one, another tenant, a group, the host. Changes
nothing. Pure."""

from functools import partial

from runbooks.core.headline import of_cause
from runbooks.core.judgment import diagnosis, findings, ordered, state_of, tier
from runbooks.core.reading import Known, Unknown
from runbooks.core.rules import book as book_of
from runbooks.core.rules import by_the_rules
from runbooks.core.sizes import size
from runbooks.core.times import utc
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding
from runbooks.memory import advice, window
from runbooks.memory.device import device_causes, snapshot_causes
from runbooks.memory.evidence import Evidence
from runbooks.memory.host import host_causes
from runbooks.memory.limits import Limits
from runbooks.parsers.cuda_oom import CudaOom
from runbooks.triage.text import findings_of

SLUG = "memory-pressure"
book = partial(book_of, SLUG)


@by_the_rules("memory-pressure")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment."""
    host = tuple(host_causes(evidence, limits))
    device = (_beside(c, host) for c in device_causes(evidence, limits))
    causes = ordered(SLUG, (*device, *host, *snapshot_causes(evidence)))
    open_ = (*window.undated(evidence), *_unknown_killer(evidence, causes, limits))
    seen = evidence.log.value.cuda if isinstance(evidence.log, Known) else ()
    return diagnosis(
        SLUG,
        causes,
        state=state_of(causes, blind=open_ or isinstance(evidence.log, Unknown)),
        headline=_headline(evidence, causes, open_),
        symptom=seen[-1].text[:300] if seen else "",
        must_not=() if causes else ("end a process on a GPU because it holds memory",),
        after=_advice(evidence, causes, seen),
        findings=(*findings(SLUG, causes, "memory"), *_log_findings(evidence, causes), *window.others(evidence, limits)),
        unknowns=(*open_, *_unused(evidence, causes, seen)),
        by_hand=("nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv",
        "ls -l /proc/*/fd 2>/dev/null | grep nvidia"),
    )  # fmt: skip


def _beside(found: Cause, host: tuple[Cause, ...]) -> Cause:
    """A GPU that was too small, beside host memory that ran out as well: which of them ended the job is not known."""
    if found.slug != "model-too-large" or not any(c.slug == "host-oom" and tier(c) == 0 for c in host):
        return found
    return found.model_copy(update={"certainty": Certainty.LIKELY, "decides": ("the time of that kill against the log's last line",)})


def _log_findings(evidence: Evidence, causes: tuple[Cause, ...]) -> tuple[Finding, ...]:
    """What else the job's log says, by the whole knowledge: memory may not be what ended it."""
    words = evidence.log.value.words if isinstance(evidence.log, Known) else ()
    own = book().causes if any(not c.benign for c in causes) else (c.slug for c in causes)
    return findings_of(words, "its log", "memory-pressure", own)  # the numbers say more of memory than its words


def _advised(causes: tuple[Cause, ...], seen: tuple[CudaOom, ...]) -> bool:
    """Whether a change of the job's own configuration is worked out."""
    return bool(seen and causes and causes[0].slug in ("model-too-large", "fragmented"))


def _unused(evidence: Evidence, causes: tuple[Cause, ...], seen: tuple[CudaOom, ...]) -> tuple[str, ...]:
    """Numbers of the job that the run was given and that decided nothing."""
    given = [n for n in ("batch", "gpus", "checkpointing") if getattr(evidence.setup, n) is not None]
    given += ["accumulation"] if evidence.setup.accumulation != 1 else []
    told = f"options {', '.join(given)}: given, and they decided nothing: no change of the batch is advised"
    return (told,) if given and not _advised(causes, seen) else ()


def _unknown_killer(evidence: Evidence, causes: tuple[Cause, ...], limits: Limits) -> tuple[str, ...]:
    """Who ended a job whose log says that it was killed, where no kill is of that time."""
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    if log is None or not log.killed or causes or isinstance(evidence.killed, Unknown):
        return ()
    near = window.span(limits.kill_near_s)
    return (f"who ended the job: its log says that it was killed, and the kernel log names no kill within {near} of its end",)


def _headline(evidence: Evidence, causes: tuple[Cause, ...], open_: tuple[str, ...]) -> str:
    if causes and not causes[0].benign:
        return of_cause(book(), causes[0])
    if open_:
        return f"Not known: {open_[0]}"
    if causes:
        return f"No sign of memory running out; {causes[0].evidence[0]}"
    return _well(evidence)


def _well(evidence: Evidence) -> str:
    """What was seen of a machine that is well, as far as it was read."""
    said = [f"nothing was killed for memory since {utc(evidence.since)}"] if evidence.since else []
    if isinstance(evidence.host, Known):
        said.append(f"{size(evidence.host.value.available)} of {size(evidence.host.value.total)} are available")
    read = not isinstance(evidence.killed, Unknown) and evidence.since
    return f"No sign of memory running out: {', '.join(said)}" if read else "No sign of memory running out"


def _advice(evidence: Evidence, causes: tuple[Cause, ...], seen: tuple[CudaOom, ...]) -> tuple[str, ...]:
    """The change of the job's own configuration, step by step."""
    if not _advised(causes, seen):
        return ()
    return tuple(f"{n}. {line}" for n, line in enumerate(advice.lines(seen[-1], evidence.setup), 1))
