"""Turns what was seen into what is said: lines cut, cleaned and with secrets replaced."""

import re
from collections.abc import Callable, Iterable, Mapping

from runbooks.core.clean import one_line
from runbooks.core.distinct import prohibitions
from runbooks.core.knowledge import CauseKnowledge, Role
from runbooks.core.verdict import Certainty
from runbooks.triage.advice import mild
from runbooks.triage.load import Rule
from runbooks.triage.model import CandidateCause, Line
from runbooks.triage.probe import Raw

SHOWN = 4  # evidence lines of a cause
LONGEST = 300


def few(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The first lines and the last."""
    return lines if len(lines) <= SHOWN else (*lines[: SHOWN - 1], lines[-1])


def checks_first(cause: CauseKnowledge, read: Iterable[str]) -> tuple[str, ...]:
    """What decides the cause; last what one of the lines that were `read` says in the same words."""
    lines = tuple(read)
    said = [s.pattern for s in cause.signatures if s.pattern and any(re.search(s.pattern, line) for line in lines)]
    return tuple(sorted(cause.decided_by, key=lambda words: any(re.search(pattern, words) for pattern in said)))


class Shower:
    """Turns what was seen into what is said, secrets replaced."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def candidate(
        self, known: Rule, rooted: bool, by_role: Mapping[Role, list[Raw]], before: tuple[str, ...]
    ) -> CandidateCause:
        """The cause with its lines."""
        cause = known.cause
        rooted = rooted and not cause.inconclusive
        remedy, held_back = mild(cause.remedy)
        evidence, confirmed_by = self.lines(by_role[Role.ROOT] or by_role[Role.FOLLOWS]), self.lines(by_role[Role.CONFIRMS])
        return CandidateCause(
            slug=known.slug,
            family=known.family,
            runbook=cause.runbook,
            target=cause.target,
            certainty=Certainty.LIKELY if rooted and not before else Certainty.POSSIBLE,
            benign=cause.benign,
            title=cause.title,
            explanation=cause.explanation,
            evidence=evidence,
            confirmed_by=confirmed_by,
            decided_by=checks_first(cause, (line.text for line in (*evidence, *confirmed_by))),
            remedy=remedy,
            held_back=held_back,
            must_not=prohibitions(cause.must_not),
            follows=before,
            references=cause.references,
        )

    def lines(self, raws: list[Raw]) -> tuple[Line, ...]:
        """First lines and the last, each once."""
        return few(self.each(raws))

    def each(self, raws: list[Raw]) -> tuple[Line, ...]:
        """Every line once, in order."""
        once = {(r.file, r.number): r for r in sorted(raws, key=lambda r: r.order)}.values()
        return tuple(Line(file=r.file, number=r.number, text=self._text(r), times=r.times, rank=r.rank) for r in once)

    def _text(self, raw: Raw) -> str:
        text = self._redact(one_line(raw.text))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 60]} … {text[-50:]}"
