"""What triage says about a text: candidates with the lines that say so, and what would decide."""

from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.verdict import Certainty

SAID = {"nothing": "nothing-known-to-me", "benign": "nothing-known-to-me-but-what-may-be-benign"}


class Line(Frozen):
    """A line of the input that counts as evidence."""

    file: str
    number: int  # from 1
    text: str  # normalised, secrets replaced, at most 300 characters
    times: int = 1  # how often lines like it were seen
    rank: str = ""  # "[rank3]", "Actor pid=7 ip=10.0.0.2" where the line names its speaker


class CandidateCause(Frozen):
    """One cause that the text points to."""

    slug: str
    family: str  # runbook slug, or name of the family file
    runbook: str = ""  # which runbook reads the machine for it; empty: by hand only
    target: str = ""  # on what that runbook runs
    certainty: Certainty  # text alone gives at most `likely`
    benign: bool = False  # explains the text and must be left alone
    title: str
    explanation: str
    evidence: tuple[Line, ...]
    confirmed_by: tuple[Line, ...] = ()
    decided_by: tuple[str, ...]  # the exact reading or command
    remedy: str  # what may be done once a check has shown the cause; never what destroys or restarts
    held_back: bool = False  # a part of the remedy was left out for that
    must_not: tuple[str, ...]
    follows: tuple[str, ...] = ()  # slugs of causes seen in the text of which this is usually the consequence
    references: tuple[str, ...] = ()


class Near(Frozen):
    """A cause whose own words are near to the text's: a place to look, never an answer."""

    slug: str
    family: str
    title: str
    runbook: str = ""
    target: str = ""
    decided_by: tuple[str, ...]


class Code(Frozen):
    """A code of the text, by the tables: a starting point, never a verdict."""

    kind: str  # "exit code", "Xid", "S3 error" …
    code: str
    meaning: str
    decides: str
    file: str
    number: int


class TriageResult(Frozen):
    """The whole answer to one text."""

    verdict: str  # "nothing" | "benign" | "causes" | "not-enough"
    causes: tuple[CandidateCause, ...] = ()  # most credible first; the first explains the rest where `follows` says so
    inconclusive: tuple[CandidateCause, ...] = ()  # starting points that the text leaves open
    nearest: tuple[Near, ...] = ()  # only where no cause is named: what the words come close to, best first
    unexplained: tuple[Line, ...] = ()  # lines that report a failure and fit no known cause: the first and the last of each kind
    more_unexplained: bool = False  # there may be more of them
    besides: tuple[Line, ...] = ()  # the same beside a cause or a starting point: lines that none of these explains
    more_besides: bool = False
    codes: tuple[Code, ...] = ()
    facts: dict[str, tuple[str, ...]] = {}
    files: tuple[str, ...] = ()
    lines_read: int = 0
    notes: tuple[str, ...] = ()  # what could not be read, what was cut

    def data(self) -> dict[str, Any]:
        """The answer for programs, in the same sense as in words: what shows nothing known is no word about the machine."""
        return self.model_dump(mode="json") | {"verdict": SAID.get(self.verdict, self.verdict)}

    @property
    def exit_code(self) -> int:
        """1 candidates found, 3 none: a text that shows nothing proves nothing about the machine."""
        return 1 if self.verdict == "causes" else 3
