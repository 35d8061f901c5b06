"""A plan is data: what would be done, to exactly what, and what is lost. Nothing here does anything."""

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, model_validator

from runbooks.core.args.base import Args
from runbooks.core.args.table import misfit
from runbooks.core.base import Frozen
from runbooks.core.clean import one_line

LONGEST_NAME = 160
A = TypeVar("A", bound=Args)


class Risk(StrEnum):
    """How much an action can hurt. `destructive` is never automatic."""

    SAFE = "safe"
    DISRUPTIVE = "disruptive"
    DESTRUCTIVE = "destructive"


class Step(Frozen):
    """One change. Raises ValidationError where `args` are not those of its kind (runbooks/core/args/table.py)."""

    kind: str  # action kind, e.g. "terminate-processes"; the engine's action table says who runs it
    owner: str  # physical owner that is locked while it runs: node name, "leader", "pod:<id>", "store:<url>"
    args: dict[str, Any]  # JSON data: identities the judgment was made on (pid, start, boot id, container id …)
    commands: tuple[str, ...]  # what a person would type to do the same, in order
    effect: str  # what should be true afterwards
    loses: str = "nothing"  # what is lost by doing it
    of: str = ""  # the finer thing that it is about (a container of its node), for counting; the owner is what is locked

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if words := misfit(self.kind, self.args):
            raise ValueError(words)
        return self

    def typed(self, model: type[A]) -> A:
        """Its arguments as the model of its kind. Raises ValidationError: a copy may hold others."""
        return model.model_validate(self.args)


def choice_name(name: str) -> str:
    """A plan's name as a person sees and types it: one line. It may hold a name that was read."""
    return one_line(name, LONGEST_NAME)


class Plan(Frozen):
    """One choice an operator can take. The engine locks the owners, acts in order, then proves."""

    name: Annotated[str, AfterValidator(choice_name)]  # "clean up only", "clean up and restart"
    steps: tuple[Step, ...]
    for_causes: tuple[str, ...]  # cause slugs it removes
    also_gone: tuple[str, ...] = ()  # causes that would show that it did not help, though what it was for is gone
    why: str = ""  # why this choice, when several are offered
    despite: str = ""  # who is at work beside what it would end: withheld, and only a person may choose it, knowing that
    settle_s: float = 2.0  # how long to wait before looking again; longer than the fault's own period

    @property
    def owners(self) -> tuple[str, ...]:
        """Every lock the plan needs, in the one order in which locks are taken."""
        return tuple(sorted({step.owner for step in self.steps}))

    @property
    def digest(self) -> str:
        """64 hex digits over identities and commands; two plans with one digest do the same thing to the same things. One that is
        withheld has another: who allowed it while nobody was at work did not know."""
        return plan_digest((self,))


def plan_digest(plans: tuple[Plan, ...]) -> str:
    """Digest of all the choices that a person was shown."""
    body = [[p.name, [[s.kind, s.owner, s.args, list(s.commands)] for s in p.steps], *(["knowingly"] if p.despite else [])] for p in plans]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def named_apart(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """The plans with names that differ: a person chooses by name, and two that were read may look alike."""
    seen: set[str] = set()
    found = []
    for plan in plans:
        name, number = plan.name, 2
        while name in seen:
            name, number = f"{plan.name} ({number})", number + 1
        seen.add(name)
        found.append(plan if name == plan.name else plan.model_copy(update={"name": name}))
    return tuple(found)
