"""The report as data: JSON is the truth, Markdown is rendered from it (render.py)."""

from datetime import datetime
from typing import Any

from runbooks.core.base import Frozen, Line
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Risk
from runbooks.core.refusal import Refusal
from runbooks.core.verdict import Diagnosis

SCHEMA = 1


class Event(Frozen):
    """A line of the timeline."""

    at: datetime
    what: str


class Permission(Frozen):
    """Who allowed (or refused) the plan, and on what."""

    allowed: bool
    by: str  # "policy", "person", "nobody"
    who: str = ""  # as typed; the open-source server has no users
    checked: str = ""  # how the name was checked: "signed link", "approver code"; "": not at all
    at: datetime | None = None
    digest: str = ""
    choice: str = ""  # name of the chosen plan
    said: str = ""  # reason given


class Undo(Frozen):
    """How one step that was done is undone."""

    kind: str
    words: str
    commands: tuple[str, ...] = ()  # for the step's owner, in order; none where the words say all


class ActionRecord(Frozen):
    """One action run: what was done on one owner."""

    owner: str
    kinds: tuple[str, ...]
    act_run: str  # flow run id; the record in Prefect
    digest: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str  # done | refused | failed | unfinished | not-started
    steps: tuple[str, ...] = ()  # how each of its steps ended, in order: done | refused | failed | not begun
    said: tuple[str, ...] = ()
    undo: tuple[Undo, ...] = ()  # of each step that was done, the last one first
    refused: Refusal | None = None  # the guard's no that ended it


class ChangedLimit(Frozen):
    """One limit that has not its default value."""

    runbook: str
    name: str
    default: Any
    now: Any
    unit: str
    file: str  # "": it was not read from a file

    def __str__(self) -> str:
        return f"{self.name}: {self.now} ({self.unit}; default: {self.default}), from {self.file or 'the fleet file'}"


class Report(Frozen):
    """One run of one runbook on one target."""

    schema_version: int = SCHEMA
    id: str
    runbook: str
    title: str = ""
    target: str
    fleet: str
    mode: str
    trigger: str = "by hand"
    flow_run: str = ""
    outcome: Outcome
    headline: Line
    started_at: datetime
    ended_at: datetime
    diagnosis: Diagnosis
    evidence: dict[str, Any]
    limits: dict[str, Any]
    changed_limits: tuple[ChangedLimit, ...] = ()  # those of `limits` that the fleet file changed
    guards: tuple[str, ...] = ()  # why nothing, or not everything, was done
    refusals: tuple[Refusal, ...] = ()  # each guard's no on the way, with its code; a person may have decided after one
    chosen: Plan | None = None
    risks: dict[str, Risk] = {}  # action kind -> risk, from the engine's action table, for the kinds in the plans
    permission: Permission | None = None
    acts: tuple[ActionRecord, ...] = ()
    after: Diagnosis | None = None
    after_evidence: dict[str, Any] | None = None
    timeline: tuple[Event, ...] = ()
    connection: tuple[str, ...] = ()  # notes of the transport: first-seen key, jump host
    approve_command: str = ""
    links: dict[str, str] = {}  # name -> URL or path
