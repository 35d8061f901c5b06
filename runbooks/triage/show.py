"""Turns what was seen into what is said: lines cut, cleaned and with secrets replaced."""

from collections.abc import Callable, Mapping

from runbooks.core.clean import one_line
from runbooks.core.distinct import prohibitions
from runbooks.core.knowledge import Role
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


class Shower:
    """Turns what was seen into what is said, secrets replaced."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def candidate(
        self, known: Rule, rooted: bool, by_role: Mapping[Role, list[Raw]], before: tuple[str, ...]
    ) -> CandidateCause:
        """The cause with its lines."""
        cause = known.cause
        rooted = rooted and not cause.undecided
        remedy, held_back = mild(cause.remedy)
        return CandidateCause(
            slug=known.slug,
            family=known.family,
            runbook=cause.runbook,
            target=cause.target,
            certainty=Certainty.LIKELY if rooted and not before else Certainty.POSSIBLE,
            innocent=cause.innocent,
            title=cause.title,
            explanation=cause.explanation,
            evidence=self.lines(by_role[Role.ROOT] or by_role[Role.FOLLOWS]),
            confirmed_by=self.lines(by_role[Role.CONFIRMS]),
            decided_by=cause.decided_by,
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
