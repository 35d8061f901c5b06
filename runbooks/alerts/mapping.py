"""The alerts file as types: which alert starts which runbook, on what target, in which mode. And its answer for one alert."""

from typing import Annotated, Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import AfterValidator, Field

from runbooks.alerts.alert import Alert, plain
from runbooks.alerts.matchers import Matcher, matches
from runbooks.core.base import Frozen
from runbooks.core.fleet import NAME
from runbooks.core.policy import Mode

LONGEST_TARGET = 200
LONGEST_OPTION = 4_000
FAILURES = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a template that compiles can still end in when it is filled in."""


def without_port(value: str) -> str:
    """Template filter `host`: `node-a:9400` → `node-a`, `[2001:db8::1]:9400` → `2001:db8::1`."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.rpartition(":")[0] if value.count(":") == 1 else value


def _environment() -> SandboxedEnvironment:
    env = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    env.filters = {k: v for k, v in env.filters.items() if k in ("lower", "upper", "replace", "trim", "default")}
    env.filters["host"] = without_port
    env.globals = {}
    return env


ENVIRONMENT = _environment()


def _template(text: str) -> str:
    try:
        ENVIRONMENT.from_string(text)
    except TemplateError as e:
        raise ValueError(f"not a template: {e}") from e
    except RecursionError as e:
        raise ValueError("not a template: nested too deep") from e
    return text


Template = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_template)]


class AlertRule(Frozen):
    """One row: alerts that match start `runbook` on `target`."""

    name: str = Field(pattern=NAME)
    match: tuple[Matcher, ...] = Field(min_length=1)
    runbook: str
    target: Template
    mode: Mode = Mode.DIAGNOSE
    options: dict[str, Template] = {}
    choice: str = ""
    go_on: bool = False  # look at the rows below as well

    def matches(self, labels: dict[str, str]) -> bool:
        """True if every matcher holds."""
        return all(matches(m, labels) for m in self.match)


class AlertsFile(Frozen):
    """The whole alerts file. The first row that matches is taken."""

    rules: tuple[AlertRule, ...] = Field(min_length=1)
    same_within_s: float = Field(default=60, ge=0, le=3600)
    """A new start time of the same alert within so many seconds of the last run is the same alert: replicas of a
    Prometheus begin up to an evaluation interval apart."""
    repeat_s: float = Field(default=3600, ge=60)
    """An alert that is still firing although its run came to no answer (cannot tell, cancelled) is diagnosed again so
    many seconds after that run was started, when the sender repeats it."""


class WantedRun(Frozen):
    """What one row makes of one alert, before the fleet and the policy were asked."""

    rule: str
    runbook: str
    target: str
    mode: Mode
    options: dict[str, str] = {}
    choice: str = ""


class Unusable(Frozen):
    """A row matched, but nothing can be started from it: why, and what to change."""

    rule: str
    why: str


def wanted(alert: Alert, file: AlertsFile) -> tuple[WantedRun | Unusable, ...]:
    """What the alert starts by this file; empty: it is not mapped."""
    found: list[WantedRun | Unusable] = []
    for rule in file.rules:
        if rule.matches(alert.labels):
            found.append(_apply(rule, alert))
            if not rule.go_on:
                break
    return tuple(found)


def _apply(rule: AlertRule, alert: Alert) -> WantedRun | Unusable:
    try:
        target = _render(rule.target, alert, LONGEST_TARGET)
        options = {name: _render(text, alert, LONGEST_OPTION) for name, text in rule.options.items()}
    except FAILURES as e:
        why = f"{plain(e, 200)}; the alert has: {', '.join(sorted(alert.labels)[:20])}"
        return Unusable(rule=rule.name, why=why)
    if not target:
        return Unusable(rule=rule.name, why="the target came out empty; an empty target never means all")
    return WantedRun(
        rule=rule.name, runbook=rule.runbook, target=target, mode=rule.mode, options=options, choice=rule.choice
    )


def _render(text: str, alert: Alert, longest: int) -> str:
    """The template with the alert's labels filled in. Values are data: a label that looks like a template stays text."""
    given: dict[str, Any] = dict(alert.labels) | {"labels": alert.labels, "annotations": alert.annotations}
    return plain(ENVIRONMENT.from_string(text).render(given), longest)
