"""A message to people: what happened in one line, what a person must do, what waiting costs. Made from a report."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime

from runbooks.core.base import Frozen
from runbooks.core.clean import first, one_command, one_line
from runbooks.core.outcome import Outcome, Severity
from runbooks.core.plan import Plan, Risk
from runbooks.core.report import Report
from runbooks.core.verdict import Diagnosis

LINE = 300  # characters
LINES = 5
COMMANDS = 10  # of one plan; the report has all
DECIDE = "Decide: approve or reject the plan."


class PlanChoice(Frozen):
    """One plan on offer, short enough for a phone."""

    name: str
    why: str = ""
    steps: tuple[str, ...]
    commands: tuple[str, ...] = ()
    destructive: bool = False


class Message(Frozen):
    """One thing to tell about one run. Holds no secret and no approve link: it is stored as a label of the run."""

    run: str
    incident: str  # the same for every message about one target and runbook
    severity: Severity
    outcome: Outcome
    fleet: str
    runbook: str
    target: str
    title: str
    headline: str
    at: datetime
    mode: str = ""
    trigger: str = ""
    causes: tuple[str, ...] = ()
    do_now: tuple[str, ...] = ()
    waiting_costs: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    choices: tuple[PlanChoice, ...] = ()
    asked_because: tuple[str, ...] = ()
    approval_key: str = ""
    expires: datetime | None = None
    report: str = ""  # path of the Markdown file on the worker
    artifact: str = ""  # key of the Prefect artifact
    others: tuple[str, ...] = ()  # targets that fail alike and are told of here
    news: str = ""  # more that makes two messages different: a digest
    always: bool = False  # told although all is well

    @property
    def signature(self) -> str:
        """Equal for two messages of one incident that tell a person nothing new."""
        facts = [self.outcome.value, ",".join(sorted(self.causes)), self.approval_key and f"{self.run} {self.approval_key}", self.news]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]

    @property
    def stamp(self) -> str:
        """Which message of its run this is."""
        return f"{self.signature}-{self.at.timestamp():.3f}"

    @property
    def labels(self) -> dict[str, str]:
        """What the routes of notifications.yaml can match."""
        return {
            "severity": self.severity.value,
            "outcome": self.outcome.value,
            "fleet": self.fleet,
            "runbook": self.runbook,
            "target": self.target,
            "mode": self.mode,
            "trigger": self.trigger,
            "causes": ",".join(sorted(self.causes)),
        }


def incident_of(fleet: str, runbook: str, target: str) -> str:
    """The incident's short id: 12 hex digits."""
    return hashlib.sha256("\n".join((fleet, runbook, target)).encode()).hexdigest()[:12]


def message_of(
    report: Report,
    *,
    offered: tuple[str, ...] = (),
    approval_key: str = "",
    expires: datetime | None = None,
    path: str = "",
    artifact: str = "",
) -> Message:
    """The message of a report; `offered` are the plans' names that a person may choose, the first one first."""
    verdict = report.after or report.diagnosis
    plans = {p.name: p for p in (*report.diagnosis.plans, *report.diagnosis.knowingly)}
    return Message(
        run=report.flow_run or report.id,
        incident=incident_of(report.fleet, report.runbook, report.target),
        severity=report.outcome.row.severity,
        outcome=report.outcome,
        fleet=one_line(report.fleet, LINE),
        runbook=report.runbook,
        target=one_line(report.target, LINE),
        title=one_line(report.title or report.runbook, LINE),
        headline=one_line(report.headline, LINE),
        at=report.ended_at,
        mode=report.mode,
        trigger=one_line(report.trigger, LINE),
        causes=tuple(dict.fromkeys(c.slug for c in verdict.wrong))[:LINES],
        do_now=_do_now(report, verdict),
        waiting_costs=() if report.outcome.row.closing else _lines(verdict.waiting_costs),
        must_not=() if report.outcome.row.closing else _lines(verdict.must_not),
        choices=tuple(_choice(plans[n], report.risks) for n in offered if n in plans),
        asked_because=_lines(report.guards) if report.outcome is Outcome.WAITING else (),
        approval_key=approval_key,
        expires=expires,
        report=path,
        artifact=artifact,
    )


def _do_now(report: Report, verdict: Diagnosis) -> tuple[str, ...]:
    """What a person must do; nothing where nobody is needed."""
    if report.outcome is Outcome.WAITING:
        return _lines((DECIDE, *verdict.do_now))
    if report.outcome.row.closing:
        return ()
    if report.outcome is Outcome.REFUSED:
        return _lines((*report.guards, *verdict.do_now))
    return _lines(verdict.do_now)


def _choice(plan: Plan, risks: Mapping[str, str]) -> PlanChoice:
    steps = [f"{s.kind} on {s.owner}. Effect: {s.effect}. Lost: {s.loses}." for s in plan.steps]
    more = [f"… and {len(steps) - LINES + 1} more steps: see the report"] if len(steps) > LINES else []
    return PlanChoice(
        name=plan.name,
        why=one_line(plan.why, LINE),
        steps=_lines((*steps[: LINES - len(more)], *more)),
        commands=tuple(one_line(c, LINE) for c in first((one_command(c) for s in plan.steps for c in s.commands), COMMANDS)),
        destructive=any(risks.get(s.kind) == Risk.DESTRUCTIVE.value for s in plan.steps),
    )


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(x for x in (one_line(line, LINE) for line in list(lines)[:LINES]) if x)


def grouped(message: Message, others: tuple[str, ...]) -> Message:
    """The message of many targets that fail alike: one incident of its own, decided on by its common cause."""
    count = len(others) + 1
    do_now = message.do_now
    if message.severity.needs_somebody:
        do_now = (f"Look for what {count} targets have in common before you fix any of them.", *do_now[1:])
    alike = "\n".join(("*", message.outcome, *sorted(message.causes)))
    return message.model_copy(
        update={
            "incident": incident_of(message.fleet, message.runbook, alike),
            "others": others[:20],
            "approval_key": "",
            "do_now": do_now,
        }
    )


def all_well(message: Message, members: tuple[str, ...], now: datetime) -> Message:
    """The end of an incident of many targets, whose newest message this was."""
    return message.model_copy(
        update={
            "severity": Severity.INFO,
            "outcome": Outcome.HEALTHY,
            "headline": f"all {len(members)} targets have recovered",
            "at": now,
            "others": tuple(t for t in members if t != message.target)[:20],
            "always": True,
        }
        | dict.fromkeys(("causes", "do_now", "waiting_costs", "must_not", "choices", "asked_because"), ())
    )
