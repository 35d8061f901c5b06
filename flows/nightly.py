"""The nightly: every runbook that can apply, on every node, diagnose only; one report."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import ValidationError

from flows import store
from flows.config import load_fleet
from flows.outcomes import clean_report
from flows.ownership import heartbeat, own_run
from flows.progress import Timeline
from flows.run import current_run_id
from flows.specs import SLUGS, load_spec
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import slug
from runbooks.core.nightly import LOOK_BACK, Cost, NightlyReport, Result, SystemLook, compare
from runbooks.core.nightly_table import nightly_table
from runbooks.core.render import nightly_headline, render_nightly
from runbooks.core.report import Outcome, Report
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict
from tasks.context import Context, utc_now
from tasks.diagnostics.systems import look_at_system
from tasks.installation import installation_redactor
from tasks.report_store import earlier_evidence, history, reports_root, save, save_nightly
from tasks.transport.open import HostPool

AT_ONCE = 8
OUTCOMES = {
    Verdict.HEALTHY: Outcome.HEALTHY,
    Verdict.NOT_APPLICABLE: Outcome.NOT_APPLICABLE,
    Verdict.SICK: Outcome.SICK,
    Verdict.CANNOT_TELL: Outcome.CANNOT_TELL,
}


@dataclass(frozen=True)
class Sweep:
    """What every node task of one sweep shares."""

    fleet: Fleet
    slugs: tuple[str, ...]
    folder: Path
    run_id: str
    trigger: str


@flow(name="nightly", flow_run_name="nightly", persist_result=False, retries=0)
def nightly(
    fleet: str | None = None, policy: str | None = None, out: str | None = None, at_once: int = AT_ONCE
) -> State[Any]:
    """Diagnoses the whole fleet and writes one report. Changes nothing.

    Args:
        fleet: path of the fleet file on the worker. Empty: this machine alone.
        policy: accepted so that every deployment takes the same files; the nightly never acts.
        out: folder for the reports. Empty: as the fleet file says.
        at_once: nodes that are read at the same time.
    """
    return sweep_fleet(load_fleet(fleet), SLUGS, out, at_once, "nightly")


@flow(name="sweep", flow_run_name="zombie sweep", persist_result=False, retries=0)
def sweep(fleet: str | None = None, out: str | None = None, at_once: int = AT_ONCE) -> State[Any]:
    """Standing zombie detection: the nightly's zombie-GPU check, meant for every five minutes. Changes nothing."""
    return sweep_fleet(load_fleet(fleet), ("zombie-gpu",), out, at_once, "sweep")


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
def check_node(sweep: Sweep, node: Node) -> tuple[list[Result], list[str]]:
    """Every runbook on one node, over one connection. Returns results and what could not be read; never raises."""
    pool = HostPool()
    results: list[Result] = []
    try:
        results += [r for r in (_one(sweep, node, name, pool) for name in sweep.slugs) if r is not None]
    finally:
        pool.close_all()
    unread = [f"{node.name}: {u}" for r in results for u in r.unknowns]
    return results, list(dict.fromkeys(unread))


def _one(sweep: Sweep, node: Node, name: str, pool: HostPool) -> Result | None:
    """One runbook on one node. None: it does not apply. Never raises."""
    began, at = time.monotonic(), utc_now()
    try:
        applies = load_spec(name).nightly
        if applies is None or not applies(sweep.fleet, node):
            return None
        report = _diagnose(sweep, node, name, pool, at)
        saved = save(report, _render(report), sweep.folder, keep=sweep.fleet.reports.keep)
    except Exception as e:
        why = installation_redactor().text(f"{name} itself failed: {type(e).__name__}: {e}")
        return Result(node=node.name, runbook=name, outcome=Outcome.CANNOT_TELL, headline=why, unknowns=(why,))
    d = report.diagnosis
    return Result(
        node=node.name,
        runbook=name,
        outcome=report.outcome,
        headline=report.headline,
        causes=tuple(dict.fromkeys(c.slug for c in d.wrong)),
        do_now=d.do_now,
        unknowns=d.unknowns,
        report=str(saved.markdown or ""),
        seconds=time.monotonic() - began,
    )


def _render(report: Report) -> str:
    from runbooks.core.render import render

    return render(report, load_runbook(report.runbook))


def _diagnose(sweep: Sweep, node: Node, name: str, pool: HostPool, at: datetime) -> Report:
    spec = load_spec(name)
    limits = load_runbook(name).limit_values(sweep.fleet.limits.get(name))
    bridge = float(limits[spec.bridge]) if spec.bridge else 0.0
    earlier = earlier_evidence(sweep.folder, name, node.name, bridge, at)
    context = Context(fleet=sweep.fleet, target=node.name, open_host=pool, limits=limits, earlier=earlier)
    evidence = spec.gather(context)
    diagnosis: Diagnosis = spec.diagnose(evidence, spec.limits.model_validate(limits))
    return clean_report(
        Report(
            id=f"{sweep.run_id}-{slug(node.name)}",
            runbook=name,
            title=load_runbook(name).title,
            target=node.name,
            fleet=sweep.fleet.name,
            mode="diagnose",
            trigger=sweep.trigger,
            flow_run=sweep.run_id,
            outcome=OUTCOMES[diagnosis.state],
            headline=diagnosis.headline,
            started_at=at,
            ended_at=utc_now(),
            diagnosis=diagnosis,
            evidence=evidence.model_dump(mode="json"),
            limits=limits,
            connection=pool.notes,
            guards=("diagnose mode: nothing was changed",) if diagnosis.plans else (),
        )
    )


def sweep_fleet(fleet: Fleet, slugs: tuple[str, ...], out: str | None, at_once: int, trigger: str) -> State[Any]:
    """The sweep itself, inside a flow run."""
    run_id, began, cpu, at = current_run_id(), time.monotonic(), os.times(), utc_now()
    timeline = Timeline(clean=installation_redactor().text)
    own_run(run_id, {"fleet": fleet.name, "runbook": trigger, "target": fleet.name})
    whole = Sweep(
        fleet=fleet, slugs=slugs, folder=reports_root(out or fleet.reports.folder), run_id=run_id, trigger=trigger
    )
    with heartbeat(run_id):
        timeline.reached("started", f"{trigger} over {len(fleet.nodes)} node(s)")
        answers = _all_nodes(whole, at_once, timeline)
        systems = _all_systems(fleet, at_once)
        wall = time.monotonic() - began
        used = os.times()
        cost = Cost(
            wall_s=round(wall, 2),
            cpu_s=round(used.user + used.system - cpu.user - cpu.system, 2),
            nodes=len(fleet.nodes),
            readings=sum(len(r) for r, _ in answers),
        )
        results = tuple(r for found, _ in answers for r in found)
        report = NightlyReport(
            id=run_id,
            kind=trigger,
            fleet=fleet.name,
            trigger=trigger,
            flow_run=run_id,
            started_at=at,
            ended_at=utc_now(),
            results=results,
            nodes=tuple(n.name for n in fleet.nodes),
            not_read=tuple(u for _, unread in answers for u in unread),
            systems=systems,
            troubles=compare(_earlier_nights(whole), results, at),
            cost=cost,
        )
        return _publish(report, whole, run_id, timeline)


def _earlier_nights(sweep: Sweep) -> list[NightlyReport]:
    """Earlier sweeps of this kind, newest first; records that today's code cannot read are passed over."""
    found = []
    for data in islice(history(sweep.folder, sweep.trigger, sweep.fleet.name), LOOK_BACK):
        with suppress(ValidationError):
            found.append(NightlyReport.model_validate(data))
    return found


def _all_nodes(sweep: Sweep, at_once: int, timeline: Timeline) -> list[tuple[list[Result], list[str]]]:
    futures = []
    limit = max(1, min(at_once, 64))
    running: list[Any] = []
    for node in sweep.fleet.nodes:
        if len(running) >= limit:
            running.pop(0).wait()
        future = check_node.with_options(task_run_name=f"check {node.name}").submit(sweep, node)
        futures.append(future)
        running.append(future)
    answers = []
    for node, future in zip(sweep.fleet.nodes, futures, strict=True):
        found, unread = future.result()
        worst = "; ".join(f"{r.runbook}: {r.headline}" for r in found) or "no runbook applies"
        timeline.reached("gathered", f"{node.name}: {worst}")
        answers.append((found, unread))
    return answers


def _all_systems(fleet: Fleet, at_once: int) -> tuple[SystemLook, ...]:
    if not fleet.systems:
        return ()
    with ThreadPoolExecutor(max_workers=max(1, min(at_once, 16))) as pool:
        return tuple(pool.map(look_at_system, fleet.systems))


def _publish(report: NightlyReport, sweep: Sweep, run_id: str, timeline: Timeline) -> State[Any]:
    markdown, headline = render_nightly(report), nightly_headline(report)
    saved = save_nightly(report, markdown, sweep.folder, keep=sweep.fleet.reports.keep)
    for problem in saved.problems:
        timeline.reached("problem", problem)
    with suppress(Exception):  # the files are there already
        store.save_markdown(slug("nightly", report.trigger, report.fleet), markdown[:400_000], headline[:250])
    labels = {
        "outcome": report.outcome.value,
        "headline": headline[:300],
        "report": str(saved.markdown or ""),
        "report.json": str(saved.record or ""),
        "table": nightly_table(report)[:20_000],
    }
    store.label(run_id, labels)
    timeline.reached("reported", headline)
    return Completed(name="Report written", message=headline[:400])
