"""What a run has done so far: its report is made of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from flows.engine.progress import Timeline
from runbooks.core.plan import Plan
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.report import ActionRecord, Event, Permission
from runbooks.core.verdict import Diagnosis


@dataclass
class RunRecord:
    """What a run has done so far."""

    started_at: datetime
    trigger: str
    folder: Path
    tags: dict[str, str]
    timeline: Timeline
    headline: str = ""
    diagnosis: Diagnosis | None = None
    evidence: Any = None
    guards: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    chosen: Plan | None = None
    permission: Permission | None = None
    waiting_until: datetime | None = None
    offered: tuple[Plan, ...] = ()  # in the form
    approval_key: str = ""
    acts: list[ActionRecord] = field(default_factory=list)
    after_diagnosis: Diagnosis | None = None
    after_evidence: Any = None
    crashed: str = ""
    fault: str = ""  # what is said of a fault of ours that ended it

    def first(self, evidence: Any, diagnosis: Diagnosis) -> None:
        """The observation that the plan rests on."""
        self.evidence, self.diagnosis, self.headline = evidence, diagnosis, diagnosis.headline

    def after(self, evidence: Any, diagnosis: Diagnosis) -> None:
        """The observation after the action."""
        self.after_evidence, self.after_diagnosis = evidence, diagnosis

    def refused(self, *why: Refusal, said: str | None = None) -> None:
        """Notes each guard's no once, for the report's JSON and the metrics; and for people in their words, or as `said`.

        The mode that was asked for is no refusal."""
        self.refusals.extend(w for w in why if w not in self.refusals and w.code is not RefusalCode.MODE)
        words = [w.why for w in why] if said is None else [said] * bool(said)
        self.guards.extend(w for w in words if w not in self.guards)

    def resume_from(self, reports: Iterable[dict[str, Any]], run_id: str) -> None:
        """Takes over the timeline of the same run's waiting report, if it is among the newest of `reports`."""
        for report in islice(reports, 20):
            if report.get("id") == run_id:
                self.timeline.events[:0] = [Event.model_validate(e) for e in report.get("timeline", [])]
                return
