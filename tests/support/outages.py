"""A fleet whose readers die: situations of the runbooks read, judged and shown by the product, under a clock of our own.

The product's own functions look, judge, keep verdicts and write the page; only the readers, the clock and the server are stand-ins.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from pydantic import BaseModel

from deployments.cli import status
from flows.engine import observe
from flows.self_health import Health
from flows.specs import load_spec
from flows.sweep import board, sweeping
from flows.sweep.sweeping import Sweep
from runbooks.core.fleet import Fleet, Node
from runbooks.core.nightly import Cost, NightlyReport, Result, compare
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.render_nightly import nightly_headline
from runbooks.core.verdict import Diagnosis, State
from runbooks.notify.message import Message
from runbooks.notify.nightly import message_of_nightly
from tasks.context import Context
from tasks.remote.probe import run_probe, unknown
from tasks.report_store import SavedReport
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool
from tests.runbooks.every import Situation, situations
from tests.runbooks.test_raw_answers import Printing
from tests.runbooks.test_unread import places
from tests.support.evidence_places import Place, replaced, value_at

T0 = datetime(2026, 6, 1, tzinfo=UTC)
FLEET = "outages"
SOURCE = Source(command="as the situation says", host="a node")
WORDS = "no answer: the outage of this test"


def seen_at(value: Any, by: timedelta, at: datetime) -> Any:
    """The same world so much later: its times moved, each reading made at `at`."""
    if isinstance(value, datetime):
        return value + by
    if isinstance(value, Known | Absent):
        new: dict[str, Any] = {"source": (value.source or SOURCE).model_copy(update={"taken_at": at})}
        return value.model_copy(update=new | ({"value": seen_at(value.value, by, at)} if isinstance(value, Known) else {}))
    if isinstance(value, Unknown):
        return value
    if isinstance(value, tuple):
        return tuple(seen_at(x, by, at) for x in value)
    if isinstance(value, dict):
        return {k: seen_at(x, by, at) for k, x in value.items()}
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: seen_at(getattr(value, name), by, at) for name in type(value).model_fields})
    return value


@cache
def by_runbook() -> dict[str, tuple[Situation, ...]]:
    """The situations of each runbook."""
    found: dict[str, list[Situation]] = {}
    for case in situations():
        found.setdefault(case.runbook, []).append(case)
    return {slug: tuple(cases) for slug, cases in found.items()}


def decided(dice: random.Random, slug: str) -> Situation:
    """One of them in which something is decided: it is healthy or wrong, or a plan is offered."""
    while True:
        case = dice.choice(by_runbook()[slug])
        judged = case.judge()
        if judged.state in (State.HEALTHY, State.UNHEALTHY) or judged.plans:
            return case


class Look(NamedTuple):
    """One look by the product: what it judged of which evidence, and what all readers alive would have given."""

    result: Result
    evidence: Any  # None: the target gave no answer
    found: Diagnosis
    before: Diagnosis


Reader = Callable[[Any, Any, Context], Any]
"""Of the evidence as it is now, the evidence of the last living look and the context: what the reader gives. May raise."""


def alive(now: Any, _last: Any, _context: Context) -> Any:
    """Reads what is there."""
    return now


def hangs(place: Place) -> Reader:
    """Its reading times out; of no place: the whole target does."""

    def reader(now: Any, _last: Any, _context: Context) -> Any:
        if not place:
            raise TransportError(UnknownReason.TIMED_OUT, WORDS)
        return replaced(now, place, Unknown(reason=UnknownReason.TIMED_OUT, detail=WORDS))

    return reader


def blank(place: Place) -> Reader:
    """It prints nothing, and ends well: through the reader that all probes have."""

    def reader(now: Any, _last: Any, context: Context) -> Any:
        try:
            run_probe(cast(Any, Printing("")), "host_limits", {})
        except TransportError as e:
            if not place:
                raise
            return replaced(now, place, unknown(context, e, WORDS))
        return now

    return reader


def frozen(place: Place) -> Reader:
    """It gives what it gave when it lived, with its time."""

    def reader(now: Any, last: Any, _context: Context) -> Any:
        return replaced(now, place, value_at(last, place)) if place else last

    return reader


DEATHS: dict[str, Callable[[Place], Reader]] = {"hangs": hangs, "goes blank": blank, "freezes": frozen}


@dataclass
class Kept:
    """The server's records, in memory: artifacts by key, and the sweeps' runs."""

    tables: dict[str, tuple[list[dict[str, Any]], str]] = field(default_factory=dict)
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    runs: list[tuple[datetime, FlowRun]] = field(default_factory=list)

    def put_table(self, key: str, rows: list[dict[str, Any]], about: str) -> None:
        self.tables[key] = rows, about

    def get_table(self, key: str) -> list[dict[str, Any]]:
        return self.tables.get(key, ([], ""))[0]

    def put_markdown(self, key: str, page: str, about: str) -> None:
        self.pages[key] = page, about

    def described(self, prefix: str) -> list[tuple[str, str]]:
        every = {k: about for kind in (self.tables, self.pages) for k, (_, about) in kind.items()}
        return sorted((k, about) for k, about in every.items() if k.startswith(prefix))

    def begun_with(self, prefix: str) -> list[list[dict[str, Any]]]:
        return [rows for key, (rows, _) in sorted(self.tables.items()) if key.startswith(prefix)]

    def paths(self, keys: Any) -> dict[str, str]:
        return {k: f"/v2/artifacts/key/{k}" for k in keys}

    def find_runs(self, _tags: Any, states: Any = None, limit: int = 0, since: datetime | None = None, **_: Any) -> list[FlowRun]:
        found = [run for at, run in reversed(self.runs) if since is None or at >= since]
        return [r for r in found if not states or StateType.COMPLETED in states][: limit or None]


class Fleetlet:
    """A few nodes, one situation of one runbook on each, swept by a schedule."""

    def __init__(self, cases: list[Situation], every: timedelta, kind: str, folder: Path) -> None:
        self.cases = {f"n{i}": case for i, case in enumerate(cases)}
        self.readers: dict[str, Reader] = dict.fromkeys(self.cases, alive)
        self.every, self.kind, self.now = every, kind, T0
        self.kept, self.last, self.looks = Kept(), dict[str, Any](), dict[str, Look]()
        self.nights: list[NightlyReport] = []
        self._judged: tuple[Any, Diagnosis | None] = (None, None)
        limits = {case.runbook: case.limits for case in cases}
        self.fleet = Fleet(name=FLEET, nodes=tuple(Node(name=n, local=True) for n in self.cases), limits=limits)
        self.sweep = Sweep(fleet=self.fleet, slugs=tuple(limits), folder=folder, run_id=str(uuid4()), trigger=kind)

    def __enter__(self) -> "Fleetlet":
        self._patches = ExitStack()
        schedule: Any = IntervalSchedule(interval=self.every) if self.kind == "sweep" else CronSchedule(cron="0 3 * * *")
        deployment = SimpleNamespace(schedules=[SimpleNamespace(active=True, schedule=schedule)])
        health = Health(
            open_runs=(), locks=(), waiting=(), reaper=None, reaper_age_s=None, reapers=0, pool_paused=False, workers=1, frozen=False,
            breakers=(),
        )  # fmt: skip
        stand_ins: list[tuple[str, Any]] = [
            ("flows.sweep.board.artifacts", SimpleNamespace(
                ABOUT_START="", put_table=self.kept.put_table, get_table=self.kept.get_table, put_markdown=self.kept.put_markdown,
                described=self.kept.described, tables=self.kept.begun_with, paths=self.kept.paths)),
            ("flows.sweep.board._to_run", tuple),
            ("flows.sweep.board.server_now", lambda: self.now),
            ("flows.clock.server_now", lambda: self.now),
            ("flows.store.find_runs", self.kept.find_runs),
            ("flows.store.ask", lambda *_a, **_k: deployment),
            ("flows.store.running_runs", list),
            ("flows.store.get_variable", lambda _: None),
            ("flows.store.variables", lambda _: {}),
            ("flows.self_health.read_health", lambda _: health),
            ("flows.ui_pages.ui_url", lambda *_: "http://ui"),
            ("flows.sweep.sweeping.utc_now", lambda: self.now),
            ("flows.engine.observe.utc_now", lambda: self.now),
            ("flows.sweep.sweeping.save", lambda *_a, **_k: SavedReport()),
            ("flows.sweep.sweeping._render", lambda _: ""),
            ("flows.sweep.sweeping.report_links", lambda _: {}),
            ("flows.sweep.sweeping.load_spec", self._spec),
            ("flows.sweep.sweeping.context_of", self._context),
        ]  # fmt: skip
        for name, stand_in in stand_ins:
            self._patches.enter_context(patch(name, stand_in))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _context(self, *args: Any, **more: Any) -> Context:
        return replace(observe.context_of(*args, **more), now=lambda: self.now)

    def _spec(self, slug: str) -> Any:
        real = load_spec(slug)

        def gather(context: Context) -> Any:
            full = self.world(context.target)
            given = self.readers[context.target](full, self.last.get(context.target, full), context)
            if self.readers[context.target] is alive:
                self.last[context.target] = full
            return given

        def diagnose(evidence: Any, limits: Any) -> Diagnosis:
            found = real.diagnose(evidence, limits)
            self._judged = evidence, found
            return found

        return replace(real, gather=gather, diagnose=diagnose, parts=lambda c: (c.options,))

    def world(self, node: str) -> Any:
        """What a living reader of that node gives now."""
        evidence: Any = self.cases[node].evidence
        return seen_at(evidence, self.now - evidence.taken_at, self.now)

    def look(self, node: str) -> Look:
        """The node's runbook on the node, as a sweep looks."""
        self._judged = (None, None)
        case = self.cases[node]
        with HostPool() as pool:
            (result,) = sweeping._all(self.sweep, node, case.runbook, pool)
        evidence, found = self._judged
        unread = Diagnosis(state=State.CANNOT_TELL, headline=result.headline, unknowns=result.unknowns)
        self.looks[node] = Look(result, evidence, found or unread, case.judge(self.world(node)))
        return self.looks[node]

    def sweep_all(self, takes: timedelta = timedelta(seconds=20)) -> Message:
        """One sweep of the schedule: every node looked at, then reported. Returns the message that people get."""
        began = self.now
        results = tuple(self.look(node).result for node in self.cases)
        self.now = began + takes
        run = FlowRun(
            id=uuid4(), flow_id=uuid4(), deployment_id=UUID(int=1), auto_scheduled=True, name=self.kind,
            labels={"fleet": FLEET, "runbook": self.kind, "outcome": "healthy", "headline": "a sweep"},
        )  # fmt: skip
        self.kept.runs.append((self.now, run))
        report = NightlyReport(
            id=str(run.id), kind=self.kind, fleet=FLEET, trigger=self.kind, started_at=began, ended_at=self.now, results=results,
            nodes=tuple(self.cases), troubles=compare(self.nights, results, began), cost=Cost(wall_s=1),
        )  # fmt: skip
        self.nights = [report, *self.nights[:3]]
        board.keep_verdicts(report, board.counts_for(run))
        board.publish_board(self.fleet)
        return message_of_nightly(report, nightly_headline(report))

    def page(self) -> str:
        """The fleet's page as it is after the reaper's next round."""
        board.renew_boards(self.now)
        return self.kept.pages[board.board_key(FLEET)][0]

    def status(self) -> list[str]:
        """What `gpu-runbooks status` prints."""
        running = dict.fromkeys(("server", "worker", "reaper"), True)
        local = {"own_server": True, "freeze_file": None, "api_answers": True, "processes": running, "logs": "", "ui": "http://ui"}
        return list(status.status_lines(local | status._server_facts(), self.now))


def a_fleet(dice: random.Random, folder: Path, most: int = 3) -> Fleetlet:
    """Nodes of different runbooks; swept every five minutes, or every night."""
    slugs = dice.sample(sorted(by_runbook()), most)
    cases = [decided(dice, slug) for slug in slugs]
    every, kind = dice.choice([(timedelta(minutes=5), "sweep"), (timedelta(days=1), "nightly")])
    return Fleetlet(cases, every, kind, folder)


def a_place(dice: random.Random, evidence: Any) -> Place:
    """Of one reader among those of the evidence; sometimes of all of them."""
    found = list(places(evidence))
    return dice.choice(found) if found and dice.random() < 0.75 else ()
