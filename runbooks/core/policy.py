"""The policy file as types: who may act, on what, how often. Nothing is automatic until it is named here."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from runbooks.core.base import Frozen

LONGEST_WINDOW_S = 60 * 86_400  # source: the Prefect server forgets ended actions after 90 days (deployments/retention.py)


class Mode(StrEnum):
    """What a run may do. Ordered: diagnose < approve < auto."""

    DIAGNOSE = "diagnose"  # read, judge, report
    APPROVE = "approve"  # ask a person, then act
    AUTO = "auto"  # act without asking where the policy allows it, else ask

    @property
    def rank(self) -> int:
        """0, 1, 2."""
        return ("diagnose", "approve", "auto").index(self.value)


class KindPolicy(Frozen):
    """Limits of one action kind."""

    mode: Mode = Mode.APPROVE  # the most a run may do with it
    cooldown_s: float = Field(default=600, ge=0, le=LONGEST_WINDOW_S)  # after an action on the same owner for the same cause
    attempts: int = Field(default=3, ge=1)  # per owner, cause and window
    of_each: int | None = Field(default=None, ge=1)  # attempts of one container of it; the cooldown is then each one's too
    window_s: float = Field(default=3600, gt=0, le=LONGEST_WINDOW_S)
    approval_ttl_s: float = Field(default=4 * 3600, gt=0)  # an approval older than this is void


class Budget(Frozen):
    """How much of a fleet may be changed per window before the breaker trips."""

    window_s: float = Field(default=3600, gt=0, le=LONGEST_WINDOW_S)
    share: float = Field(default=0.1, gt=0, le=1)  # of the nodes, for fleets of ten and more
    nodes: int = Field(default=2, ge=1)  # for fleets below ten

    def allowed(self, fleet_size: int) -> int:
        """Nodes that may be changed within one window."""
        return self.nodes if fleet_size < 10 else max(1, int(fleet_size * self.share))


class CommonCauseGuard(Frozen):
    """What counts as one incident rather than many, and how long an automatic action waits to find out."""

    settle_s: float = Field(default=30, ge=0)
    alike: int = Field(default=3, ge=2)  # this many targets with one cause within the window are one incident
    window_s: float = Field(default=300, gt=0)


class Policy(Frozen):
    """The whole policy file."""

    mode: Mode = Mode.APPROVE  # cap for every run
    kinds: dict[str, KindPolicy] = {}
    default: KindPolicy = KindPolicy()
    budget: Budget = Budget()
    storm: CommonCauseGuard = CommonCauseGuard()
    approvers: tuple[Annotated[str, Field(min_length=1, max_length=80)], ...] = ()
    """Named: a destructive plan needs the one-time code of one of them. Their secrets are not in this file."""

    @model_validator(mode="after")
    def _default_never_auto(self) -> "Policy":
        if self.default.mode is Mode.AUTO:
            raise ValueError("default.mode: auto is only allowed per kind, by name")
        return self

    @property
    def longest_window(self) -> timedelta:
        """Actions that are longer ago count for no kind."""
        return timedelta(seconds=max(max(k.window_s, k.cooldown_s) for k in (self.default, *self.kinds.values())))

    def kind(self, name: str) -> KindPolicy:
        """Limits for that action kind."""
        return self.kinds.get(name, self.default)
