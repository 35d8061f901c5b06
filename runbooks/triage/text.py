"""A text in, its causes out. Pure: the one way in which runbooks judge free text that they read themselves.

Free text is what a program says in words (last words of a container, a worker's log, an engine's error). What has a
form of its own (NVRM lines, `nvidia-smi` tables, JSON of an API) is parsed in its subject's parsers/ instead, because the
judgment needs its numbers, not only its meaning; the meaning of a code comes from the tables of runbooks/knowledge/.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from runbooks.core.verdict import Certainty, Finding
from runbooks.triage.advice import behind_check
from runbooks.triage.model import CandidateCause, TriageResult
from runbooks.triage.show import few

MOST_CHARACTERS = 4_000_000  # of a text that a runbook read; its end is kept
Text = str | Iterable[str]


def judge_lines(text: Text, facts: Mapping[str, str] | None = None, only: tuple[str, ...] = ()) -> TriageResult:
    """The whole answer to `text`: causes, starting points left open, facts. Secrets must be replaced before.

    `only` names what is looked for, as "family" or "family/slug"; empty: everything that is known.
    """
    import io

    from runbooks.triage.judge import judge
    from runbooks.triage.narrow import narrowed
    from runbooks.triage.sources import stream_blocks

    data = io.BytesIO(_whole(text).encode("utf-8", "replace"))
    return judge(stream_blocks(data, "text"), facts, lib=narrowed(only))


def _whole(text: Text) -> str:
    joined = text if isinstance(text, str) else "\n".join(text)
    return joined[-MOST_CHARACTERS:]


def _causes(text: Text, only: tuple[str, ...]) -> tuple[CandidateCause, ...]:
    """As `judge_text`, remembered: the looks of one run ask about the same words again."""
    whole = _whole(text)
    return _judged(whole, only) if whole.strip() else ()


@lru_cache(maxsize=32)
def _judged(whole: str, only: tuple[str, ...]) -> tuple[CandidateCause, ...]:
    return judge_text(whole, only=only)


def judge_text(text: Text, facts: Mapping[str, str] | None = None, only: tuple[str, ...] = ()) -> tuple[CandidateCause, ...]:
    """Causes that `text` points to, most credible first; then starting points that it leaves open (`possible`)."""
    outcome = judge_lines(text, facts, only)
    return (*outcome.causes, *outcome.inconclusive)


def first_cause(text: Text, only: tuple[str, ...] = ()) -> CandidateCause | None:
    """The most credible cause that `text` points to; None where it names none or only starting points."""
    return next((c for c in _causes(text, only) if _is_cause(c)), None)


def meanings(text: Text, means: Mapping[str, tuple[str, ...]]) -> dict[str, CandidateCause]:
    """What `text` points to, as keys of `means`: one text has another name in every runbook. In the order of `means`.

    Starting points count as well where `means` names them.
    """
    names = {name: own for own, listed in means.items() for name in listed}
    found: dict[str, CandidateCause] = {}
    for cause in _causes(text, tuple(names)):
        found.setdefault(names[f"{cause.family}/{cause.slug}"], cause)
    return {own: found[own] for own in means if own in found}


def says(text: Text, *names: str) -> bool:
    """Whether `text` points to one of the causes named as "family/slug", by a line that says where it began."""
    return any(c.certainty is Certainty.LIKELY for c in _causes(text, names))


def error_lines(text: Text) -> tuple[str, ...]:
    """Lines that say what went wrong, in order: those of what the knowledge base names, else those that report a failure."""
    lines = failing_lines(_outcome(_whole(text)))
    return tuple(lines[n] for n in sorted(lines))


@lru_cache(maxsize=32)
def _outcome(whole: str) -> TriageResult:
    """The judgment of a text, once for all that is asked about it."""
    return judge_lines(whole)


def failing_lines(outcome: TriageResult) -> dict[int, str]:
    """Number and text of each line that reports a failure: of a cause that is not benign, or of none that is known."""
    named = [line for c in (*outcome.causes, *outcome.inconclusive) if not c.benign for line in c.evidence]
    return {line.number: line.text for line in (*named, *few(outcome.unexplained))}


def failures(text: Text) -> tuple[tuple[tuple[str, str], ...], bool]:
    """What reports a failure: (slug, line) of each cause that the text points to, and ("", line) of what fits none.

    And whether there may be more lines of the last kind: of very many alike the first and the last are kept.
    """
    outcome = _outcome(_whole(text))
    named = [(c.slug, c.evidence[0].text) for c in (*outcome.causes, *outcome.inconclusive) if c.evidence and not c.benign]
    return (*named, *(("", line.text) for line in outcome.unexplained)), outcome.more_unexplained


def besides(text: Text) -> tuple[tuple[str, ...], bool]:
    """Lines that report a failure beside the causes that `text` points to, and that none of these explains; and whether more."""
    outcome = _outcome(_whole(text))
    return tuple(line.text for line in outcome.besides), outcome.more_besides


def _is_cause(candidate: CandidateCause) -> bool:
    return candidate.certainty is Certainty.LIKELY and not candidate.benign


def findings_of(text: Text, place: str, runbook: str, judged: Iterable[str] = ()) -> tuple[Finding, ...]:
    """What the words of `place` say by the whole knowledge, for the report of `runbook`: the cause, its line, what next.

    Not again what the runbook has `judged` (slugs) by its readings.
    """
    known = frozenset(judged)
    causes = [c for c in _causes(text, ()) if _is_cause(c) and c.slug not in known][:2]
    return tuple(_finding(c, place, runbook) for c in causes)


def _finding(cause: CandidateCause, place: str, runbook: str) -> Finding:
    line = cause.evidence[0] if cause.evidence else None
    where = f" (line {line.number}: “{line.text[:200]}”)" if line else ""
    action = behind_check(cause.decided_by, cause.remedy, cause.held_back)
    if cause.must_not:
        action += " " + "; ".join(" ".join(m.split()) for m in cause.must_not[:2]) + "."
    if cause.runbook and cause.runbook != runbook:
        action += f" Next: gpu-runbooks run {cause.runbook} TARGET ({cause.target or 'the target it names'})."
    issue = f"{place}: {cause.title}{where}"
    return Finding(priority="HIGH", category=f"{cause.family}/{cause.slug}", issue=issue, action=action)
