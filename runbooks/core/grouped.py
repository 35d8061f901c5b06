"""Causes of one kind as one part of a report: what holds for the kind once, then each subject with its own evidence. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runbooks.core.distinct import FEW
from runbooks.core.judgment import filled, general
from runbooks.core.knowledge import CauseKnowledge
from runbooks.core.outcome import Outcome
from runbooks.core.report import Report
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding


class CauseGroup(NamedTuple):
    """Causes of one slug that are all faults, or all benign."""

    causes: tuple[Cause, ...]
    own: tuple[tuple[str, ...], ...]  # of each cause the evidence that stands nowhere above
    common: tuple[str, ...]  # evidence that all of several have

    @property
    def slug(self) -> str:
        """Of each."""
        return self.causes[0].slug

    @property
    def subjects(self) -> tuple[str, ...]:
        """What each is about."""
        return tuple(c.subject for c in self.causes)

    @property
    def benign(self) -> bool:
        """Whether each is to be left alone."""
        return self.causes[0].benign

    @property
    def sure(self) -> str:
        """How sure they are, and of several how many: "confirmed", "15 confirmed", "12 confirmed, 3 possible"."""
        if len(self.causes) == 1:
            return self.causes[0].certainty.value
        found = [c.certainty for c in self.causes]
        return ", ".join(f"{found.count(x)} {x.value}" for x in Certainty if x in found)

    @property
    def confirmed(self) -> bool:
        """Each of them."""
        return all(c.certainty is Certainty.CONFIRMED for c in self.causes)

    @property
    def mixed(self) -> bool:
        """Some are surer than others."""
        return len({c.certainty for c in self.causes}) > 1

    def remedy(self, known: CauseKnowledge) -> str:
        """What runbook.yaml says that helps, without what the report speaks against for one of them; for one cause with its ids."""
        text = known.remedy_without({kind for c in self.causes for kind in c.withheld})
        return filled(text, self.causes[0]) if len(self.causes) == 1 else text

    @property
    def decides(self) -> tuple[str, ...]:
        """What would make them surer, each once; what differs in its ids alone is one line."""
        alike: dict[str, dict[str, None]] = {}
        for cause in self.causes:
            for line in cause.decides:
                alike.setdefault(general(line, cause), {})[line] = None
        return tuple(next(iter(lines)) if len(lines) == 1 else line for line, lines in alike.items())


def groups_of(causes: Sequence[Cause]) -> Iterator[CauseGroup]:
    """Every cause, by kind, in the order of each kind's first. Evidence that stands under an earlier kind is not told again."""
    kinds: dict[tuple[str, bool], list[Cause]] = {}
    for cause in causes:
        kinds.setdefault((cause.slug, cause.benign), []).append(cause)
    told: set[str] = set()
    for found in kinds.values():
        several = len(found) > 1
        common = tuple(x for x in dict.fromkeys(found[0].evidence) if several and all(x in c.evidence for c in found))
        known = told | set(common)
        own = tuple(tuple(x for x in dict.fromkeys(c.evidence) if x not in known) for c in found)
        yield CauseGroup(causes=tuple(found), own=own, common=tuple(x for x in common if x not in told))
        told.update(x for c in found for x in c.evidence)


def how_many(report: Report, known: dict[str, CauseKnowledge]) -> str:
    """What the headline adds where faults of one kind are several: "; 15 cases of “A process is stopped”". Else "".

    A title that the headline has is not repeated ("; 15 such cases"), nor is a number that it has ("(and 14 more)").
    """
    if report.outcome.exit_code == 0 or report.outcome is Outcome.NOT_FIXED or report.after:
        return ""
    found = [g for g in groups_of(report.diagnosis.wrong) if len(g.causes) > 1]
    titles = [(len(g.causes), known[g.slug].title if g.slug in known else g.slug) for g in found[:FEW]]
    titles = [(n, title) for n, title in titles if f"(and {n - 1} more)" not in report.headline]
    words = [f"{n} such cases" if title in report.headline else f"{n} cases of “{title}”" for n, title in titles]
    return f"; {', '.join(words)}" if words else ""


def grouped_findings(found: Diagnosis) -> Iterator[Finding]:
    """The findings. Of more than `FEW` with one action, ids aside, the first stands for all, with their number."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in found.findings:
        about = max((c for c in found.causes if c.subject in finding.issue), key=lambda c: len(c.subject), default=None)
        action = general(finding.action, about) if about else finding.action
        alike.setdefault((finding.priority, finding.category, action), []).append(finding)
    for (_, _, action), rows in alike.items():
        more = f"; and {len(rows) - 1} more with this action" if len(rows) > FEW else ""
        yield from [rows[0].model_copy(update={"issue": f"{rows[0].issue}{more}", "action": action})] if more else rows
