"""The nightly report as data, and what changed since the earlier ones. Pure: history comes in as reports."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from runbooks.core.base import Frozen, Line
from runbooks.core.nights import Nights
from runbooks.core.node_basics import NodeBasics
from runbooks.core.outcome import Outcome

SCHEMA = 1
LOOK_BACK = 8  # earlier nights within which a fault that came back counts as flapping


class Result(Frozen):
    """One runbook on one node, as far as the night's page needs it."""

    node: str
    runbook: str
    outcome: Outcome
    headline: Line
    causes: tuple[str, ...] = ()  # slugs of the causes that are a fault; benign ones and ruled-out ones are not
    do_now: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()
    costs: str = ""  # what waiting costs
    report: str = ""  # path of the run's own report
    seconds: float = 0.0
    at: datetime | None = None  # when the look at the node began; None: of a release before
    shut: bool = False  # the node could not be entered: this is the look at its log-in, no other runbook was asked

    @property
    def answered(self) -> bool:
        """True if a fault that is not named here is really not there."""
        return self.outcome.row.answered


class CheckState(StrEnum):
    """What a check of the doctor says, as it prints it."""

    OK = "ok"
    NOTE = "note"  # works without
    FAULT = "FAULT"


class SystemCheck(Frozen):
    """What one try of a system that the fleet file names said."""

    name: str
    url: str = ""
    reachable: bool = True  # False: no answer
    detail: str = ""
    seconds: float = 0.0
    state: CheckState | None = None  # None: older reports, which know only whether it answered
    fix: str = ""  # how to fix it

    @property
    def wrong(self) -> bool:
        """It gives no answer, or not the one that it must give."""
        return not self.reachable or self.state is CheckState.FAULT


class Cost(Frozen):
    """What the sweep itself took."""

    wall_s: float
    cpu_s: float | None = None  # of the process that ran it
    nodes: int = 0
    readings: int = 0


class Change(StrEnum):
    """A fault against the nights before."""

    NEW = "new"
    PERSISTING = "persisting"  # read tonight, and still there
    FLAPPING = "flapping"  # gone and come back within the look-back
    GONE = "gone"
    NOT_SEEN = "not-seen"  # it was there; tonight it could not be read: not gone
    FIRST = "first"  # no earlier night to compare with


class Trouble(Frozen):
    """One fault on one node."""

    change: Change
    node: str
    runbook: str
    cause: str
    headline: Line
    since: datetime | None = None  # start of the first night of the present spell
    nights: int = 1  # nights of the present spell, this one included
    spells: int = 1  # separate spells within the look-back


class NightlyReport(Frozen):
    """One sweep over the fleet."""

    schema_version: int = SCHEMA
    kind: str = "nightly"  # nightly | sweep: each has its own history
    id: str
    fleet: str
    trigger: str = "by hand"
    flow_run: str = ""
    started_at: datetime
    ended_at: datetime
    results: tuple[Result, ...]
    nodes: tuple[str, ...]  # every node of the fleet, also those without a result
    looks: tuple[NodeBasics, ...] = ()  # the first look at each node: none of a node that was not looked at
    not_read: tuple[str, ...] = ()  # "node-b: unreachable: connection refused"
    systems: tuple[SystemCheck, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    nights: Nights | None = None  # this one and those before it; None: of a release before
    cost: Cost
    links: dict[str, str] = {}

    @property
    def outcome(self) -> Outcome:
        """The worst of all: unhealthy before cannot-tell before healthy; a system at fault cannot be told."""
        found = {r.outcome for r in self.results}
        if any(o.exit_code == 1 for o in found):
            return Outcome.UNHEALTHY
        blind = any(not r.answered for r in self.results) or any(s.wrong for s in self.systems)
        if blind:
            return Outcome.CANNOT_TELL
        healthy = Outcome.HEALTHY in found or Outcome.FIXED in found
        return Outcome.HEALTHY if healthy or not found else Outcome.NOT_APPLICABLE


def nights_after(previous: Iterable[NightlyReport], results: Sequence[Result], nodes: Sequence[str], started_at: datetime) -> Nights:
    """The last nights with tonight's results. `previous` in any order: the newest hands on what it has, older ones are counted."""
    nights = Nights()
    for night in sorted(previous, key=lambda n: n.started_at):
        nights = night.nights or nights.and_then(night.started_at, _ended(night.results, night.nodes))
    return nights.and_then(started_at, _ended(results, nodes))


def _ended(results: Sequence[Result], nodes: Sequence[str]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {n: [] for n in nodes}
    for r in results:
        if r.node in found:
            found[r.node].append(r.outcome)
    return found


Key = tuple[str, str, str]  # node, runbook, cause


def compare(previous: Sequence[NightlyReport], results: Sequence[Result], started_at: datetime) -> tuple[Trouble, ...]:
    """Every fault of tonight, and every one of the last night that is no longer named. `previous` in any order."""
    nights = sorted(previous, key=lambda n: n.started_at)[-LOOK_BACK:]
    looks = [(n.started_at, n.results) for n in nights] + [(started_at, tuple(results))]
    keys = _keys(results) | {k for n in nights for k in _keys(n.results)}
    found = (_trouble(key, looks) for key in sorted(keys))
    return tuple(t for t in found if t is not None)


def _keys(results: Iterable[Result]) -> set[Key]:
    return {(r.node, r.runbook, cause) for r in results if r.outcome is not Outcome.FIXED for cause in r.causes}


def _trouble(key: Key, looks: Sequence[tuple[datetime, Sequence[Result]]]) -> Trouble | None:
    """The fault's line, or None if it is neither there now nor was at the last look that could tell."""
    marks = [(at, _present(key, results)) for at, results in looks]
    now = marks[-1][1]
    told = [(at, present) for at, present in marks if present is not None]
    spells = _spells([present for _, present in told])
    if not spells:
        return None
    before = [present for _, present in marks[:-1] if present is not None]
    if not now and not (before and before[-1]):
        return None
    since, nights = _spell(told)
    node, runbook, cause = key
    change = _change(now, before, len(looks), spells)
    return Trouble(
        change=change,
        node=node,
        runbook=runbook,
        cause=cause,
        headline=_headline(key, looks),
        since=since,
        nights=nights,
        spells=spells,
    )


def _present(key: Key, results: Sequence[Result]) -> bool | None:
    """Was that fault there? None: that look could not tell (not run, not read). What a look without an answer calls possible was
    not seen in it."""
    node, runbook, cause = key
    asked = [r for r in results if r.node == node and r.runbook == runbook]
    if any(cause in r.causes and r.answered and r.outcome is not Outcome.FIXED for r in asked):
        return True
    return False if asked and all(r.answered for r in asked) else None


def _change(now: bool | None, before: Sequence[bool], looks: int, spells: int) -> Change:
    if looks == 1:
        return Change.FIRST
    if now is None:
        return Change.NOT_SEEN
    if spells > 1:
        return Change.FLAPPING
    if not now:
        return Change.GONE
    return Change.PERSISTING if before and before[-1] else Change.NEW


def _spells(marks: Sequence[bool]) -> int:
    return sum(present and (i == 0 or not marks[i - 1]) for i, present in enumerate(marks))


def _spell(told: Sequence[tuple[datetime, bool]]) -> tuple[datetime, int]:
    """Start and length in nights of the newest spell."""
    i = max(i for i, (_, present) in enumerate(told) if present)
    first = i
    while first > 0 and told[first - 1][1]:
        first -= 1
    return told[first][0], i - first + 1


def _headline(key: Key, looks: Sequence[tuple[datetime, Sequence[Result]]]) -> str:
    node, runbook, cause = key
    for _, results in reversed(looks):
        for r in results:
            if (r.node, r.runbook) == (node, runbook) and cause in r.causes:
                return r.headline
    return ""
