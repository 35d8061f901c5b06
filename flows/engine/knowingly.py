"""Plans that are withheld because somebody is at work: a person may choose one, by its name and with a reason, knowing who. Pure."""

import shlex
from collections.abc import Mapping
from typing import Any

from runbooks.core.clean import one_line
from runbooks.core.plan import Plan
from runbooks.core.policy import Mode
from runbooks.core.verdict import Diagnosis

NONE_NAMED = "none of these"  # what a form stands at where each plan is withheld


def on_offer(diagnosis: Diagnosis, mode: Mode, choice: str) -> tuple[Plan, ...]:
    """The plans that a run may speak of, those that are withheld last: only where a person is asked anyway, or asked for one by name."""
    asks = mode is Mode.APPROVE and (bool(diagnosis.plans) or choice in [p.name for p in diagnosis.knowingly])
    return (*diagnosis.plans, *(diagnosis.knowingly if asks else ()))


def how_to(diagnosis: Diagnosis, mode: Mode) -> tuple[str, ...]:
    """How a person comes to be asked about a plan that is withheld."""
    said = "“{}” is withheld: a person who knows what is active can choose it by name (mode approve, its name as the choice)"
    return tuple(said.format(p.name) for p in diagnosis.knowingly) if mode is not Mode.DIAGNOSE else ()


def unknowing(plan: Plan, answer: Mapping[str, Any]) -> str:
    """Why that approval of a plan is no choice of somebody who knows who is at work; "" if it is one."""
    if not plan.despite:
        return ""
    if answer.get("choice") != plan.name:
        return f"“{plan.name}” is withheld and never chosen by default: choose it by name"
    if not str(answer.get("why", "")).strip():
        return f"“{plan.name}” is withheld: {plan.despite}. Give a reason to do it anyway"
    return ""


def named(plans: tuple[Plan, ...], choice: str) -> Plan:
    """The plan of that name, else the first that is not withheld; else the first, which `unknowing` refuses."""
    free = [p for p in plans if not p.despite]
    return next((p for p in plans if p.name == choice), (free or list(plans))[0])


def choices(plans: tuple[Plan, ...]) -> tuple[str, ...]:
    """What a form offers, its default first: never a plan that is withheld."""
    names = tuple(p.name for p in plans)
    return (NONE_NAMED, *names) if plans[0].despite else names


def ways(run: str, plans: tuple[Plan, ...]) -> tuple[str, ...]:
    """A command for each plan: where there are several, or it is withheld, it has to be named."""
    several = len(plans) > 1
    return tuple(
        f"gpu-runbooks approve {run}"
        + (f" --choice {shlex.quote(one_line(p.name))}" if several or p.despite else "")
        + (" --why REASON" if p.despite else "")
        for p in plans
    )
