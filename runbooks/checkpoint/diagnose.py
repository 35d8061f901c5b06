"""Judges the checkpoints of one job as one node sees them: which one to resume from, and what broke the others.
Pure."""

from collections.abc import Iterator

from runbooks.checkpoint import story
from runbooks.checkpoint.candidates import candidate_causes
from runbooks.checkpoint.choose import CheckpointChoice, choose, trusted
from runbooks.checkpoint.copies import whether_it_ends, writer
from runbooks.checkpoint.cross import cross_causes
from runbooks.checkpoint.evidence import Evidence, TierFacts
from runbooks.checkpoint.gaps import gap_causes
from runbooks.checkpoint.leftovers import leftover_causes
from runbooks.checkpoint.limits import Limits
from runbooks.checkpoint.loader import loader_causes
from runbooks.checkpoint.places import out_of_reach, place_causes
from runbooks.checkpoint.plans import lacks, offer
from runbooks.checkpoint.store import store_causes
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.judgment import credible, diagnosis, findings, ordered
from runbooks.core.reading import Known, Unknown
from runbooks.core.rules import by_the_rules
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.triage.text import findings_of

__all__ = ["Limits", "diagnose"]

SLUG = "checkpoint-fallback"


@by_the_rules("checkpoint-fallback")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment."""
    if isinstance(evidence.config, Unknown):
        return _blind(evidence.config)
    if not isinstance(evidence.config, Known):
        why = getattr(evidence.config, "proof", "") or "its configuration is not known"
        return Diagnosis(
            state=State.NOT_APPLICABLE, headline=f"No checkpoints to judge: {why}",
            must_not=("take 'nothing configured' for 'nothing saved': add a `checkpoints` section to the fleet file",),
        )  # fmt: skip
    config = evidence.config.value
    evidence, strange = _configured(evidence, config)
    choice = choose(evidence, config)
    causes = ordered(
        SLUG,
        (
            *place_causes(evidence, config, limits, choice), *store_causes(evidence, limits),
            *candidate_causes(evidence, config, limits), *cross_causes(evidence), *loader_causes(evidence, config, choice),
            *_nothing(evidence, choice), *_lacking(evidence, choice), *leftover_causes(evidence), *gap_causes(evidence, config),
        )
    )  # fmt: skip
    offered = offer(evidence, config, limits, choice, causes)
    return diagnosis(
        SLUG,
        causes,
        state=_state(evidence, choice, causes, bool(strange)),
        headline=story.headline(choice, causes),
        symptom="a run ended or is to be resumed, and the newest usable checkpoint is asked for",
        must_not=story.must_not(choice),
        plans=offered.plans,
        before=story.resume(evidence, config, limits, choice),
        after=offered.withheld,
        waiting_costs=story.waiting_costs(evidence, config, choice),
        findings=(*findings(SLUG, causes, "checkpoint"), *_log_findings(evidence, causes)),
        unknowns=strange,
        by_hand=story.by_hand(choice),
    )


def _configured(evidence: Evidence, config: Checkpoints) -> tuple[Evidence, tuple[str, ...]]:
    """The evidence of the tiers that its configuration names, and a line for each other."""
    names = {t.name for t in config.tiers}
    strange = tuple(f"tier {look.tier!r}: its configuration does not name it" for look in evidence.tiers if look.tier not in names)
    kept = tuple(look for look in evidence.tiers if look.tier in names)
    return (evidence.model_copy(update={"tiers": kept}) if strange else evidence), strange


def _blind(config: Unknown) -> Diagnosis:
    return Diagnosis(
        state=State.CANNOT_TELL, headline=f"cannot tell: which checkpoints there should be is not known: {config.reason}",
        must_not=("start the run from step 0, or from any checkpoint, before its tiers were looked at",),
    )  # fmt: skip


def _log_findings(evidence: Evidence, causes: tuple[Cause, ...]) -> tuple[Finding, ...]:
    """What else the job's log says, by the whole knowledge: what ended it may be no checkpoint."""
    log = evidence.log.value if isinstance(evidence.log, Known) else ""
    return findings_of(log, "the job's log", SLUG, (c.slug for c in causes))


def _nothing(evidence: Evidence, choice: CheckpointChoice) -> tuple[Cause, ...]:
    """No candidate at all, on tiers that could all be read."""
    read = [t for t in evidence.tiers if not isinstance(t.candidates, Unknown)]
    if choice.best is not None or choice.newer or len(read) < len(evidence.tiers) or not evidence.tiers:
        return ()
    words = tuple(f"{t.where}: no name matches" for t in evidence.tiers)
    away = tuple(f"whether {t.where} is the place: {why}" for t in evidence.tiers if (why := out_of_reach(t)))
    sure = Certainty.LIKELY if away else Certainty.CONFIRMED
    return (Cause(slug="no-checkpoint", certainty=sure, subject=evidence.node, evidence=words, decides=away),)


def _lacking(evidence: Evidence, choice: CheckpointChoice) -> Iterator[Cause]:
    """Tiers from which the next restart would have to fall back further than necessary; not sure while a copy of it goes on."""
    best = choice.best.candidate if choice.best else None
    for look in evidence.tiers:
        if best is None or not lacks(look, choice):
            continue
        words = f"step {best.step} is not on {look.where}, whole ones are: {_whole_steps(look)}"
        coming = (x for x in look.leftovers if x.was == best.name or (x.doing == "copy" and not x.was))  # the latter may be of it
        busy = next((h for x in coming if (h := writer(look, x.name))), None)
        sure, decides = (Certainty.LIKELY, (whether_it_ends(busy.pid),)) if busy else (Certainty.CONFIRMED, ())
        yield Cause(slug="tier-lacks-it", certainty=sure, subject=look.where, evidence=(words,), decides=decides)


def _whole_steps(look: TierFacts) -> str:
    found = look.candidates.value if isinstance(look.candidates, Known) else ()
    return ", ".join(str(c.step) for c in found if trusted(c)) or "none"


def _state(evidence: Evidence, choice: CheckpointChoice, causes: tuple[Cause, ...], strange: bool) -> State:
    if credible(causes):
        return State.UNHEALTHY
    unread = strange or any(isinstance(t.candidates, Unknown) for t in evidence.tiers)
    if choice.best is None or choice.open or choice.best.candidate.content != "proven" or unread:
        return State.CANNOT_TELL
    return State.HEALTHY
