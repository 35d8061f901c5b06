"""What a judgment says: state, causes with their evidence, what must not be done, and the plans on offer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from runbooks.core.base import Frozen
from runbooks.core.plan import Plan, named_apart


class Certainty(StrEnum):
    """How sure a cause is. Only `confirmed` may ever be acted on without a person."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"
    RULED_OUT = "ruled-out"


class State(StrEnum):
    """The one-word answer."""

    HEALTHY = "healthy"  # read, and nothing is wrong
    NOT_APPLICABLE = "not-applicable"  # proven absent: there is nothing here to judge
    UNHEALTHY = "sick"  # at least one cause is wrong, not benign
    CANNOT_TELL = "cannot-tell"  # a reading that was needed is unknown, or only "possible" causes remain


class Cause(Frozen):
    """One cause, judged. `slug` is a key of the runbook's `causes` in runbook.yaml."""

    slug: str
    certainty: Certainty
    subject: str  # what it is about: "pid 4242 on GPU 0", "GPU 3", "node-a"
    evidence: tuple[str, ...]  # each a plain sentence with the number that was read
    decides: tuple[str, ...] = ()  # what would make it surer, or tell it from its rival (reading or command)
    fix: str = ""  # the command or the line that fixes this very case, where the remedy of runbook.yaml can't name it
    benign: bool = False  # explains the symptom and must be left alone
    withheld: tuple[str, ...] = ()  # action kinds that its remedy asks for and that the same report speaks against
    told_apart: tuple[tuple[str, str], ...] = ()  # (argument of a step, value): with another value it is about a namesake of the subject

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_reports(cls, given: Any) -> Any:
        """They call `benign` `innocent`."""
        old = isinstance(given, Mapping) and "innocent" in given
        return {"benign" if k == "innocent" else k: v for k, v in given.items()} if old else given


class Finding(Frozen):
    """A thing for a person, in the fields that diagnostic reports have always had."""

    priority: str  # HIGH | MEDIUM | LOW
    category: str
    issue: str
    action: str


class Group(Frozen):
    """What belongs together (the processes of a job, a pod and its worker) and is ended together or not at all."""

    name: str  # "job train (launcher pid 420)"
    members: tuple[str, ...]  # as runbooks/core/members.py names what a step ends: "pid 460 on node-a", "container 5f0c…"
    ties: tuple[str, ...] = ()  # what makes them one
    at_work: tuple[str, ...] = ()  # who of it is at work, a sentence each with the number that shows it; empty: nobody was seen to be


class Diagnosis(Frozen):
    """The whole judgment of one target. Pure data: the same evidence and limits always give the same diagnosis."""

    state: State
    headline: str  # one line: what is really wrong (or that nothing is)
    symptom: str = ""
    causes: tuple[Cause, ...] = ()  # earliest credible cause first
    must_not: tuple[str, ...] = ()  # what must not be done here, each with its reason
    plans: Annotated[tuple[Plan, ...], AfterValidator(named_apart)] = ()  # choices, the recommended one first; empty: nothing safe to do
    knowingly: tuple[Plan, ...] = ()  # withheld for somebody at work, and for nothing else: a person may choose one knowing that
    do_now: tuple[str, ...] = ()  # what a person must do now
    waiting_costs: tuple[str, ...] = ()  # jobs, GPUs, steps, money; only what was read
    findings: tuple[Finding, ...] = ()
    unknowns: tuple[str, ...] = ()  # what could not be read and why
    by_hand: tuple[str, ...] = Field(default=())  # commands to check or do it by hand
    groups: tuple[Group, ...] = ()  # what this look found to belong together
    covers: str = ""  # of a healthy one: what was read, and what is not there to be read

    @property
    def costs(self) -> str:
        """What waiting costs, on one line."""
        return "; ".join(self.waiting_costs)[:300]

    @property
    def wrong(self) -> tuple[Cause, ...]:
        """Causes that are a fault (not benign, not ruled out)."""
        return tuple(c for c in self.causes if not c.benign and c.certainty is not Certainty.RULED_OUT)
