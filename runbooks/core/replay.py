"""Judges the evidence of an old report again with today's code. Pure: no node is asked."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runbooks.core.base import Frozen
from runbooks.core.config_errors import kind
from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.names import there_are
from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.report import SCHEMA
from runbooks.core.verdict import Diagnosis

MOST_REPAIRS = 2000  # faults of one record that are put right before giving up
Judge = Callable[[Any, Any], Diagnosis]


class ReplayError(Exception):
    """The file cannot be judged. The message is for the operator."""


class Replayed(Frozen):
    """Then and now."""

    id: str
    runbook: str
    target: str
    recorded: Diagnosis | None  # None: the old diagnosis has another form than today's
    now: Diagnosis
    notes: tuple[str, ...] = ()  # what the record lacks or has too much for today's code

    @property
    def same(self) -> bool:
        """True if state, causes and plans are what they were."""
        return self.recorded is not None and _gist(self.recorded) == _gist(self.now)


def replay(report: Any) -> Replayed:
    """`report` is a report's JSON data. Raises ReplayError."""
    slug, evidence = check_report(report)
    module = folder_of(slug)
    evidence_type = import_module(f"runbooks.{module}.evidence").Evidence
    judge = import_module(f"runbooks.{module}.diagnose")
    known = load_runbook(slug).limit_values()
    try:
        return replay_with(report, evidence, evidence_type, judge.Limits, judge.diagnose, known)
    except RecursionError as e:
        raise ReplayError("nested too deep to be a report") from e


def check_report(report: Any) -> tuple[str, dict[str, Any]]:
    """Slug and evidence of the report. Raises ReplayError if it is none, of a newer version, or of no runbook here."""
    if not isinstance(report, dict) or "schema_version" not in report:
        raise ReplayError("not a report: there is no schema_version in it")
    if "results" in report and "evidence" not in report:
        raise ReplayError("a nightly report holds no evidence; replay one of the reports that it names")
    version = report["schema_version"]
    if not isinstance(version, int) or not 1 <= version <= SCHEMA:
        raise ReplayError(f"report schema {_shown(version)!r}: this version reads 1 to {SCHEMA}; use a newer gpu-runbooks")
    slug, evidence, limits = _shown(report.get("runbook")), report.get("evidence"), report.get("limits")
    if slug not in runbook_slugs():
        raise ReplayError(f"report of runbook {slug!r}; {there_are(slug, runbook_slugs())}")
    if not isinstance(evidence, dict):
        raise ReplayError("the report holds no evidence")
    if not isinstance(limits, dict | None):
        raise ReplayError(f"limits: expected a mapping, found {kind(limits)}; give the report as it was written")
    return slug, evidence


def _shown(value: Any) -> str:
    """What stands there, for a message; its kind where that is no text and no number."""
    return str(value)[:200] if isinstance(value, str | int | float) else kind(value)


def replay_with(
    report: dict[str, Any],
    evidence: dict[str, Any],
    evidence_type: type[BaseModel],
    limits_type: type[BaseModel],
    diagnose: Judge,
    known_limits: dict[str, Any],
) -> Replayed:
    """Limits are the recorded ones; those that the record lacks come from `known_limits` (runbook.yaml)."""
    notes: list[str] = []
    limits = _limits(report.get("limits") or {}, limits_type, known_limits, notes)
    seen = fit(evidence, evidence_type, notes)
    try:
        now = diagnose(seen, limits)
    except (ArithmeticError, ValueError) as e:
        raise ReplayError(f"the evidence holds a value that no reader makes, and it cannot be judged: {e}") from e
    return Replayed(
        id=_shown(report.get("id", "")),
        runbook=str(report["runbook"]),
        target=_shown(report.get("target", "")),
        recorded=_recorded(report.get("diagnosis"), notes),
        now=now,
        notes=tuple(notes),
    )


def fit(evidence: dict[str, Any], model: type[BaseModel], notes: list[str]) -> BaseModel:
    """Old evidence as today's type. A reading that no longer fits becomes unknown; unknown fields are left out.

    Raises ReplayError when something that is not a reading is missing or does not fit.
    """
    import copy

    data = copy.deepcopy(evidence)
    for _ in range(MOST_REPAIRS):
        try:
            return model.model_validate(data)
        except ValidationError as e:
            faults = e.errors(include_url=False)
            repaired = [_repair(data, fault, model, notes) for fault in faults]  # all of them, then look
            if not any(repaired):
                raise ReplayError(f"the evidence does not fit today's code: {_where(faults[0])}") from e
    raise ReplayError("the evidence does not fit today's code in too many places")


def _repair(data: dict[str, Any], fault: ErrorDetails, model: type[BaseModel], notes: list[str]) -> bool:
    """Puts one fault right in `data`. False: it cannot be."""
    loc = fault["loc"]
    if fault["type"] == "extra_forbidden":
        return _drop(data, loc, notes)
    name = str(loc[0]) if loc else ""
    if name not in model.model_fields or not _is_reading_field(model, name):
        return False
    already = data.get(name)
    if isinstance(already, dict) and already.get("reason") == UnknownReason.NOT_RECORDED:
        return True  # an earlier fault of the same reading
    data[name] = Unknown(reason=UnknownReason.NOT_RECORDED, detail=f"recorded in another form: {_where(fault)}").model_dump()
    notes.append(f"{name}: not judged, its record has another form ({_where(fault)})")
    return True


def _is_reading_field(model: type[BaseModel], name: str) -> bool:
    return Unknown in getattr(model.model_fields[name].annotation, "__args__", ())


def _drop(data: Any, loc: Sequence[str | int], notes: list[str]) -> bool:
    """Removes the field at `loc`; parts of `loc` that name a union's branch are stepped over."""
    for part in loc[:-1]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            continue
    if not isinstance(data, dict) or loc[-1] not in data:
        return False
    del data[str(loc[-1])]
    note = f"{'.'.join(p for p in loc if isinstance(p, str))}: left out, today's code does not know it"
    if note not in notes:
        notes.append(note)
    return True


def _limits(recorded: dict[str, Any], model: type[BaseModel], known: dict[str, Any], notes: list[str]) -> BaseModel:
    names = set(model.model_fields)
    notes += [f"limit {n}: left out, today's code does not know it" for n in sorted(set(recorded) - names)]
    notes += [f"limit {n}: not recorded, today's value {known.get(n)!r} is used" for n in sorted(names - set(recorded))]
    try:
        return model.model_validate({n: v for n, v in (known | recorded).items() if n in names})
    except ValidationError as e:
        raise ReplayError(f"the limits do not fit today's code: {_where(e.errors(include_url=False)[0])}") from e


def _recorded(diagnosis: Any, notes: list[str]) -> Diagnosis | None:
    try:
        return Diagnosis.model_validate(diagnosis)
    except ValidationError:
        notes.append("the recorded diagnosis has another form than today's and is not compared")
        return None


def _where(fault: ErrorDetails) -> str:
    return f"{'.'.join(str(p) for p in fault['loc'])}: {fault['msg']}"


def _gist(d: Diagnosis) -> tuple[Any, ...]:
    return d.state, [(c.slug, c.certainty, c.subject) for c in d.causes], [p.digest for p in d.plans]
