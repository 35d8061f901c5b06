"""The nightly: every runbook that can apply, on every node, diagnose only; one report."""

import os
import time
from contextlib import suppress
from itertools import islice
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import ValidationError

from flows import store
from flows.clock import server_now
from flows.config import load_fleet
from flows.engine.ends import clean_end
from flows.engine.outcomes import end_state, failed_without_report
from flows.engine.ownership import heartbeat, own_run
from flows.engine.progress import Timeline, run_timeline
from flows.engine.run import current_run_id
from flows.engine.stopping import own_end, state_on_server
from flows.form import NOT_TYPED, AtOnce, without
from flows.notify.delivery import deliver
from flows.notify.outbox import label_and_mark_pending
from flows.patience import last_words
from flows.specs import SLUGS
from flows.sweep.board import counts_for, keep_verdicts, publish_board, sweep_key
from flows.sweep.overlap import why_skip
from flows.sweep.report_folder import report_folder_of
from flows.sweep.shards import check_fleet
from flows.sweep.side_by_side import check_targets
from flows.sweep.sweeping import NIGHTLY, Sweep
from flows.ui_pages import report_links
from runbooks.core.clean import one_line
from runbooks.core.fleet import Fleet
from runbooks.core.fleet_names import names_of
from runbooks.core.night_chart import night_chart
from runbooks.core.nightly import LOOK_BACK, Cost, NightlyReport, compare, nights_after
from runbooks.core.nightly_table import nightly_table
from runbooks.core.nights import Nights
from runbooks.core.render_nightly import nightly_headline, render_nightly
from runbooks.core.show import Markdown, joined, markdown, md, picture, shortened
from runbooks.notify.nightly import message_of_nightly
from tasks.context import utc_now
from tasks.report_store import history, save_nightly
from tasks.systems.answers import begin_here

AT_ONCE = 8
LONGEST = 300_000  # characters of a page, without its picture


@without(*NOT_TYPED)
@flow(name="nightly", flow_run_name="nightly", persist_result=False, retries=0)
@clean_end
def nightly(
    fleet: str | None = None,
    policy: str | None = None,
    out: str | None = None,
    at_once: AtOnce = AT_ONCE,
    shards: AtOnce = 1,
    detail: bool = False,
) -> State[Any]:
    """Diagnoses the whole fleet and writes one report. Changes nothing.

    Args:
        fleet: fleet file. Default: the one of the worker (GPU_RUNBOOKS_FLEET), else this machine alone.
        policy: not used: the nightly never acts. It is here so that every deployment takes the same files.
        out: folder for the reports. Default: as the fleet file says.
        at_once: Every runbook that can apply, on every node; changes nothing. One process reads so many nodes at once, 1 to 64.
        shards: processes that share the nodes, 1 to 64. Each beyond the first is a run of its own that any worker takes.
        detail: shows each reading as a task run, about 15 a node. Without it each node is one.
    """
    run_id = current_run_id()
    try:
        return own_end(run_id, sweep_fleet(load_fleet(fleet), SLUGS, out, at_once, "nightly", shards, fleet, detail))
    except Exception as e:
        failure = failed_without_report(run_id, e)
    raise failure


@without(*NOT_TYPED)
@flow(name="sweep", flow_run_name="zombie sweep", persist_result=False, retries=0)
@clean_end
def sweep(fleet: str | None = None, out: str | None = None, at_once: AtOnce = AT_ONCE) -> State[Any]:
    """Standing zombie detection: the nightly's zombie-GPU check, meant for every five minutes. Changes nothing.

    Args:
        fleet: fleet file. Default: the one of the worker (GPU_RUNBOOKS_FLEET), else this machine alone.
        out: folder for the reports. Default: as the fleet file says.
        at_once: Zombie detection on every node; changes nothing. So many nodes are read at once, 1 to 64.
    """
    return own_end(current_run_id(), sweep_fleet(load_fleet(fleet), ("zombie-gpu",), out, at_once, "sweep"))


def sweep_fleet(
    fleet: Fleet,
    slugs: tuple[str, ...],
    out: str | None,
    at_once: int,
    trigger: str,
    shards: int = 1,
    fleet_file: str | None = None,
    detail: bool = False,
) -> State[Any]:
    """The sweep itself, inside a flow run."""
    run_id, began, cpu, at = current_run_id(), time.monotonic(), os.times(), utc_now()
    skip = why_skip(run_id, trigger)
    if skip:
        return Completed(name="Skipped", message=skip)
    timeline = run_timeline()
    own_run(run_id, {"fleet": fleet.name, "runbook": trigger, "target": fleet.name})
    folder = report_folder_of(fleet, out)
    whole = Sweep(fleet=fleet, slugs=slugs, folder=folder, run_id=run_id, trigger=trigger, detail=detail)
    with heartbeat(run_id), whole.shared.ended_with_us():
        timeline.reached("started", f"{trigger} over {len(fleet.nodes)} node(s)")
        here = begin_here(fleet, named_only=trigger != NIGHTLY)
        answers = check_fleet(whole, at_once, shards, {"fleet": fleet_file, "out": out}, timeline)
        answers += check_targets(whole, timeline)
        systems = (*here(), *(s for a in answers for s in a.systems))
        wall = time.monotonic() - began
        used = os.times()
        cost = Cost(
            wall_s=round(wall, 2),
            cpu_s=round(used.user + used.system - cpu.user - cpu.system, 2),
            nodes=len(fleet.nodes),
            readings=sum(len(a.results) for a in answers),
        )
        results = tuple(r for a in answers for r in a.results)
        earlier, names = _earlier_nights(whole), tuple(n.name for n in fleet.nodes)
        report = NightlyReport(
            id=run_id,
            kind=trigger,
            fleet=fleet.name,
            trigger=trigger,
            flow_run=run_id,
            started_at=at,
            ended_at=utc_now(),
            results=results,
            nodes=names,
            not_read=tuple(u for a in answers for u in a.unread),
            looks=tuple(a.look for a in answers if a.look),
            systems=systems,
            troubles=compare(earlier, results, at),
            nights=nights_after(earlier, results, names, at) if trigger == NIGHTLY else None,
            cost=cost,
            links=report_links(run_id),
        )
        return _publish(report, whole, run_id, timeline)


def _earlier_nights(sweep: Sweep) -> list[NightlyReport]:
    """Earlier sweeps of this kind, newest first; records that today's code cannot read are passed over."""
    found = []
    nights = (night for name in names_of(sweep.fleet.name) for night in history(sweep.folder, sweep.trigger, name))
    for data in islice(nights, LOOK_BACK):
        with suppress(ValidationError):
            found.append(NightlyReport.model_validate(data))
    return found


def _publish(report: NightlyReport, sweep: Sweep, run_id: str, timeline: Timeline) -> State[Any]:
    last_words()
    text, headline = render_nightly(report), one_line(nightly_headline(report))
    saved = save_nightly(report, text, sweep.folder, keep=sweep.fleet.reports.keep)
    for problem in saved.problems:
        timeline.reached("problem", problem)
    state_on_server(run_id)
    page = sweep_key(report.kind, report.fleet)
    with suppress(Exception):  # the files are there already
        store.save_markdown(page, joined("\n\n", [shortened(text, LONGEST), *_chart(report)]), md(headline, 250))
    labels = {
        "outcome": report.outcome.value,
        "headline": headline[:300],
        "report": str(saved.markdown or ""),
        "report.json": str(saved.record or ""),
        "table": nightly_table(report)[:20_000],
    }
    label_and_mark_pending(run_id, labels, message_of_nightly(report, headline, str(saved.markdown or ""), page), server_now())
    with suppress(Exception):
        keep_verdicts(report, counts_for(store.read_run(run_id)))
    publish_board(sweep.fleet)
    timeline.reached("reported", headline)
    for problem in deliver(run_id):
        timeline.reached("told", f"notification not sent yet: {problem}")
    return end_state(report.outcome, headline)


def _chart(report: NightlyReport) -> list[Markdown]:
    """For the page in the UI only: the report's file is read in terminals, too."""
    svg = night_chart(report.nights or Nights())
    return [markdown("## The last nights"), picture("what each node was on the last nights", svg)] if svg else []
