"""What the types of a configuration file cannot tell: names in it that must be known here. Every reader of a file asks."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError

from runbooks.core.config import Fault
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.names import there_are
from runbooks.core.policy import Policy


def fleet_faults(fleet: Fleet) -> Iterator[Fault]:
    """Limits of a runbook that does not exist, limits that it does not have, values that do not fit, and log files of unknown nodes."""
    for place, file in enumerate(fleet.orchestrator.log_sources.files if fleet.orchestrator else ()):
        nodes = [n.name for n in fleet.nodes]
        if file.node and file.node not in nodes:
            yield ("orchestrator", "log_sources", "files", place, "node"), f"no such node; {there_are(file.node, nodes)}"
    for slug, values in fleet.limits.items():
        if slug in runbook_slugs():
            yield from _limit_faults(slug, values)
        else:
            yield ("limits", slug), f"no such runbook; {there_are(slug, runbook_slugs())}"


def _limit_faults(slug: str, values: dict[str, Any]) -> Iterator[Fault]:
    book = load_runbook(slug)
    known = book.limit_values()
    for name in (n for n in values if n not in known):
        yield ("limits", slug, name), f"unknown limit; {there_are(name, sorted(known))}"
    try:
        _limits_of(slug).model_validate(known | {n: v for n, v in values.items() if n in known})
    except ValidationError as e:
        for error in e.errors():
            yield ("limits", slug, *error["loc"]), f"{error['msg']}; found {error['input']!r}"
    for name, value in values.items():
        if name in known and isinstance(value, int | float) and (why := _out_of_range(book.limits[name].unit, value)):
            yield ("limits", slug, name), f"must {why}; found {value!r}"


def _out_of_range(unit: str, value: float) -> str:
    """What the unit alone asks of a number that does not fulfil it; "" of one that does."""
    if unit.startswith("share"):
        return "" if 0 <= value <= 1 else f"be a share between 0 and 1 ({unit})"
    return "" if value >= 0 else "not be negative"


def _limits_of(slug: str) -> type[BaseModel]:
    found: type[BaseModel] = import_module(f"runbooks.{folder_of(slug)}.diagnose").Limits
    return found


def policy_faults(policy: Policy) -> Iterator[Fault]:
    """Kinds of action that nothing here carries out: a limit for one would hold nothing."""
    if not policy.kinds:
        return
    from flows.engine.actions import ACTIONS

    for kind in (k for k in policy.kinds if k not in ACTIONS):
        yield ("kinds", kind), f"no such kind of action; {there_are(kind, sorted(ACTIONS))}"
