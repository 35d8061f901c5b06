"""Publishes the fleet's landing page from what Prefect knows: the runs' labels and the last sweeps' verdicts."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName, FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.schedules import IntervalSchedule
from pydantic import ValidationError

from flows import artifacts, store
from flows.clock import server_now
from flows.engine.approval import EXPIRES
from flows.specs import SLUGS
from flows.ui_pages import START, UiPage, ui_path
from runbooks.core.board import (
    COUNTS_FOR,
    Board,
    Runnable,
    Verdict,
    Waiting,
    headline,
    newest,
    next_stale,
    render_board,
    render_fleets,
)
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import slug
from runbooks.core.nightly import NightlyReport
from runbooks.core.outcome import Outcome
from runbooks.core.show import Markdown, markdown, md
from runbooks.core.times import read_time

log = logging.getLogger("flows.board")
LOOK_BACK = timedelta(days=7)
MOST_RUNS = 200  # newest runs that are looked through; older verdicts come from the sweeps
FLEETS = "fleet-"  # how the keys of the fleets' pages begin
SWEEPS = ("nightly", "sweep")
KEPT = "nodes-of-"  # how the keys begin under which a page's nodes are kept, and when it has to be written anew
COSTS = "costs"  # label of a run: what waiting costs
READ_AT = "read-at"  # label of a run: when its last look began
REHEARSED = "rehearsal-over"  # tag of runs about a machine that the lab made and took away


def board_key(fleet: str) -> str:
    """The stable key of a fleet's page."""
    return slug("fleet", fleet)


def publish_board(fleet: Fleet) -> None:
    """Writes the page anew. Made from the server's own records, so the order of writers does not matter. Never raises."""
    _publish(fleet.name, tuple(n.name for n in fleet.nodes))


def renew_boards(now: datetime) -> list[str]:
    """Writes each page anew of which a verdict no longer counts. Returns a line for each."""
    done = []
    for key, until in artifacts.described(KEPT):
        if not until or int(until) > now.timestamp():
            continue
        if rows := artifacts.get_table(key):
            name = str(rows[0].get("fleet", ""))
            _publish(name, tuple(str(r["node"]) for r in rows if r.get("node")))
            done.append(f"the page of fleet {name}: a verdict no longer counts; written again")
    return done


def _publish(fleet: str, nodes: tuple[str, ...]) -> None:
    try:
        runs = _runs(server_now())
        board = gather_board(fleet, nodes, runs)
        page = render_board(board)
        artifacts.put_markdown(board_key(fleet), page, md(headline(board), 250))
        _publish_start(board, page, runs)
        until = next_stale(board)
        rows = [{"fleet": fleet}, *({"node": n} for n in nodes)]
        artifacts.put_table(slug(KEPT, fleet), rows, md(str(int(until.timestamp())) if until else ""))
    except Exception as e:
        log.warning("the fleet's page could not be written: %s: %s", type(e).__name__, e)


def _publish_start(board: Board, page: Markdown, runs: list[FlowRun]) -> None:
    """The page to begin with: the fleet's own where the server knows one fleet, else what is wrong and what waits in all of them."""
    fleets = artifacts.described(FLEETS)
    if len(fleets) > 1:
        pages = artifacts.paths(key for key, _ in fleets)
        page = render_fleets(((key.removeprefix(FLEETS), pages[key], said) for key, said in fleets), _of_all(board, runs))
    artifacts.put_markdown(START, page, artifacts.ABOUT_START)


def _of_all(board: Board, runs: list[FlowRun]) -> Board:
    """What runs of all fleets found and what they wait for, each target with its fleet's name. Sweeps stand on the fleets' own pages."""
    runs = [r for r in runs if r.labels.get("fleet")]
    found = [v.model_copy(update={"target": _in_fleet(r)}) for r in runs if (v := _verdict(r))]
    asked = tuple(_waiting(r).model_copy(update={"target": _in_fleet(r)}) for r in runs if _waits(r))
    return board.model_copy(update={"nodes": (), "verdicts": _linked(found), "waiting": asked})


def _in_fleet(run: FlowRun) -> str:
    return f"{run.labels.get('target', '')} of {run.labels['fleet']}"


def _to_run() -> tuple[Runnable, ...]:
    """What this server has a form for. Others may have put any number of deployments on it, of the same names, too."""
    ours = [*SLUGS, "nightly"]  # flow and deployment share a name
    flows, deployments = FlowFilter(name=FlowFilterName(any_=ours)), DeploymentFilter(name=DeploymentFilterName(any_=ours))
    found = {d.name: d for d in store.ask(lambda c: c.read_deployments(flow_filter=flows, deployment_filter=deployments))}
    titles = {name: load_runbook(name).title for name in SLUGS} | {"nightly": "every node, every runbook that applies; changes nothing"}
    return tuple(
        Runnable(name=name, title=title, link=ui_path(UiPage.DEPLOYMENT, f"{found[name].id}/run"))
        for name, title in titles.items()
        if name in found
    )


def gather_board(fleet: str, nodes: tuple[str, ...], every: list[FlowRun]) -> Board:
    """The fleet as the server's records show it now; `every`: the runs of all fleets."""
    runs = [r for r in every if r.labels.get("fleet") == fleet]
    nightly = next((r for r in runs if r.labels.get("runbook") == "nightly" and r.labels.get("outcome")), None)
    return Board(
        fleet=fleet,
        at=server_now(),
        nodes=nodes,
        verdicts=_linked(_verdicts(fleet, runs)),
        waiting=tuple(_waiting(r) for r in runs if _waits(r)),
        to_run=_to_run(),
        nightly=next(iter(artifacts.paths([sweep_key("nightly", fleet)]).values())) if nightly else "",
        nightly_said=str(nightly.labels.get("headline", "")) if nightly else "",
    )


def wrong_now() -> tuple[Verdict, ...]:
    """What the newest run of each runbook on each target found wrong and did not mend, of all fleets, the worst first; after
    that what could not be judged, and what is not read any more."""
    now = server_now()
    runs = _runs(now)
    found = [v.as_of(now) for fleet in _fleets(runs) for v in newest(_verdicts(fleet, [r for r in runs if r.labels.get("fleet") == fleet]))]
    wrong = [v for v in found if v.outcome.row.wrong or v.stale or not v.outcome.row.answered]
    return tuple(sorted(wrong, key=lambda v: (v.outcome.rank, v.target, v.runbook)))


def _fleets(runs: list[FlowRun]) -> list[str]:
    """Those that the runs are about, and those with a page: of these nothing may have run for long."""
    paged = [row for rows in artifacts.tables(KEPT) for row in rows[:1]]
    return sorted({str(about["fleet"]) for about in (*paged, *(r.labels for r in runs)) if about.get("fleet")})


def _verdicts(fleet: str, runs: list[FlowRun]) -> list[Verdict]:
    """What the fleet's runs and its last sweeps said."""
    swept = [v for kind in SWEEPS for v in _swept(kind, fleet)]
    return [*swept, *(v for v in map(_verdict, runs) if v)]


def _linked(verdicts: list[Verdict]) -> tuple[Verdict, ...]:
    """With the address of the page that shows what each one said; before, its key stands there."""
    pages = artifacts.paths(v.link for v in verdicts)
    return tuple(v.model_copy(update={"link": pages[v.link]}) for v in verdicts)


def _runs(now: datetime) -> list[FlowRun]:
    """The newest runs, and every one that waits, however old."""
    recent = store.find_runs([store.RUNBOOK_TAG], limit=MOST_RUNS, since=now - LOOK_BACK)
    waiting = store.find_runs([store.RUNBOOK_TAG], [StateType.PAUSED], limit=MOST_RUNS)
    return list({r.id: r for r in (*recent, *waiting) if REHEARSED not in r.tags}.values())


def _waits(run: FlowRun) -> bool:
    """True from the moment its report says so, shortly before it is suspended."""
    state = run.state
    return run.labels.get("outcome") == Outcome.WAITING and bool(state and (state.is_paused() or state.is_running()))


def _waiting(run: FlowRun) -> Waiting:
    until = run.labels.get(EXPIRES)
    return Waiting(
        target=str(run.labels.get("target", "")),
        runbook=str(run.labels.get("runbook", "")),
        headline=str(run.labels.get("headline", "")),
        since=run.state.timestamp if run.state else server_now(),
        until=datetime.fromisoformat(str(until)) if until else None,
        link=ui_path(UiPage.RUN, str(run.id)),
    )


def _verdict(run: FlowRun) -> Verdict | None:
    runbook, target = str(run.labels.get("runbook", "")), str(run.labels.get("target", ""))
    try:
        outcome = Outcome(str(run.labels.get("outcome")))
    except ValueError:
        return None  # still running, or ended without a report
    if runbook in SWEEPS or not target or (outcome is Outcome.WAITING and not _waits(run)):
        return None
    read_at = read_time(str(run.labels.get(READ_AT, "")))  # None: of a release before, or nothing was read
    at = read_at or run.end_time or (run.state.timestamp if run.state else None) or server_now()
    link = slug("report", runbook, target)
    text, costs = (str(run.labels.get(name, "")) for name in ("headline", COSTS))
    return Verdict(target=target, runbook=runbook, outcome=outcome, headline=text, at=at, link=link, run=str(run.id), costs=costs)


def keep_verdicts(report: NightlyReport, counts_for: timedelta) -> None:
    """Stores what a sweep said of each node, for the page, and until when that counts: from when on the node was looked at, however
    long the sweep took. Replaces what the sweep before it said of the node, but for since when a fault is there. A node that was not
    looked at keeps what was said of it, which grows old."""
    said = [
        Verdict(
            target=r.node, runbook=r.runbook, outcome=r.outcome, headline=r.headline[:300], at=at, until=at + counts_for, costs=r.costs,
        )
        for r in report.results
        for at in [r.at or report.ended_at]
    ]
    told, looked_at = {(v.target, v.runbook) for v in said}, {v.target for v in said}
    unseen = {n for n in report.nodes if n not in looked_at}
    now = (v for v in newest([*_swept(report.kind, report.fleet), *said]) if (v.target, v.runbook) in told or v.target in unseen)
    rows = [v.model_dump(mode="json", exclude={"link", "stale"}) for v in now]
    about = markdown("what the last {} said of each node of {}", report.kind, report.fleet)
    artifacts.put_table(_verdicts_key(report.kind, report.fleet), rows, about)


def counts_for(run: FlowRun) -> timedelta:
    """How long the verdicts of a sweep count: two periods of the schedule that started it, or until after the next nightly."""
    if not run.auto_scheduled or run.deployment_id is None:
        return COUNTS_FOR
    deployment = store.ask(partial(SyncPrefectClient.read_deployment, deployment_id=run.deployment_id))
    periods = [s.schedule.interval for s in deployment.schedules if s.active and isinstance(s.schedule, IntervalSchedule)]
    return 2 * min(periods) if periods else COUNTS_FOR


def _verdicts_key(kind: str, fleet: str) -> str:
    return slug("verdicts", kind, fleet)


def sweep_key(kind: str, fleet: str) -> str:
    """The stable key of the page of a fleet's last sweep of that kind."""
    return slug("nightly", kind, fleet)


def _swept(kind: str, fleet: str) -> Iterable[Verdict]:
    """What the last sweep of that kind said of each node, with the key of its page."""
    link = sweep_key(kind, fleet)
    for row in artifacts.get_table(_verdicts_key(kind, fleet)):
        try:
            yield Verdict.model_validate(row | {"link": link})
        except ValidationError:
            continue  # written by an older version
