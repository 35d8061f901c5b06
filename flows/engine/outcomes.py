"""Collects what a run did, and turns it into report, artifact and end state."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State, StateType
from prefect.states import Failed

from flows import store
from flows.clock import server_now
from flows.engine.approval import EXPIRES
from flows.engine.ends import RunFailed, failure_of
from flows.engine.knowingly import ways
from flows.engine.observe import failed_observation, report_of, report_unread
from flows.engine.stopping import state_on_server
from flows.notify.delivery import deliver
from flows.notify.outbox import label_and_mark_pending
from flows.patience import last_words
from flows.sweep.board import COSTS, READ_AT, publish_board
from flows.ui_pages import report_links
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import slug
from runbooks.core.outcome import Outcome
from runbooks.core.policy import Mode
from runbooks.core.refusal import CODES
from runbooks.core.render import render
from runbooks.core.report import Report
from runbooks.core.show import Markdown, md, shortened
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict
from runbooks.notify.message import Message, message_of
from tasks.fault_file import FAULT_LABEL
from tasks.report_store import save
from tasks.transport.open import HostPool

if TYPE_CHECKING:
    from flows.engine.run import Run

log = logging.getLogger("flows.outcomes")
ARTIFACT_LIMIT = 400_000
NOTHING_READ = Diagnosis(state=Verdict.CANNOT_TELL, headline="the run ended before anything was read")


def build(run: "Run", outcome: Outcome, headline: str, pool: HostPool | None) -> Report:
    """The report as data."""
    d = run.record
    evidence = d.evidence if d.evidence is not None else run.evidence
    diagnosis = d.diagnosis or run.diagnosis or (failed_observation(d.crashed, d.fault) if d.crashed else NOTHING_READ)
    return report_of(
        run.spec,
        run.context,
        diagnosis,
        evidence,
        d.started_at,
        id=run.run_id,
        flow_run=run.run_id,
        mode=run.mode.value,
        trigger=d.trigger,
        outcome=outcome,
        headline=headline or diagnosis.headline,
        guards=tuple(d.guards),
        refusals=tuple(d.refusals),
        chosen=d.chosen,
        permission=d.permission,
        acts=tuple(d.acts),
        after=d.after_diagnosis,
        after_evidence=d.after_evidence,
        timeline=tuple(d.timeline.events),
        connection=tuple(pool.notes if pool else ()),
        links=report_links(run.run_id),
        approve_command="\n".join(ways(run.run_id, d.offered)) if outcome is Outcome.WAITING else "",
    )


def publish(run: "Run", outcome: Outcome, headline: str, pool: HostPool | None) -> Report:
    """Writes JSON and Markdown files, S3 if set, and the Prefect artifact. One that fails never stops the others."""
    if outcome is not Outcome.WAITING:
        last_words()
    report = build(run, outcome, headline, pool)
    page = render(report, load_runbook(run.spec.slug))
    saved = save(report, page, run.record.folder, keep=run.fleet.reports.keep)
    for problem in saved.problems:
        log.error("report not saved as it should be: %s", problem)
    if saved.problems:
        log.error("the report, so that it is not lost:\n%s", page)
    if run.fleet.reports.s3:
        _to_s3(run.fleet.reports.s3, report, page)
    try:
        key = slug("report", run.spec.slug, run.context.target)
        store.save_markdown(key, shortened(page, ARTIFACT_LIMIT), md(f"{report.outcome}: {report.headline}", 250))
        costs = (report.after or report.diagnosis).costs
        labels = {"outcome": outcome.value, "headline": report.headline[:300], "report": str(saved.markdown or ""), COSTS: costs}
        if run.read_at:
            labels[READ_AT] = run.read_at.isoformat()
        if report.refusals:
            labels[CODES] = ",".join(sorted({r.code for r in report.refusals}))
        if run.record.fault:
            labels[FAULT_LABEL] = run.record.fault
        if run.record.waiting_until:
            labels[EXPIRES] = run.record.waiting_until.isoformat()
        label_and_mark_pending(run.run_id, labels, _message(run, report, str(saved.markdown or ""), key), server_now())
    except Exception as e:
        log.error("report artifact not published: %s", e)
    publish_board(run.fleet)
    run.record.timeline.reached("reported", f"report written: {outcome}")
    return report


def _message(run: "Run", report: Report, path: str, artifact: str) -> Message:
    d, waits = run.record, report.outcome is Outcome.WAITING
    return message_of(
        report,
        offered=tuple(p.name for p in d.offered) if waits else (),
        approval_key=d.approval_key if waits else "",
        expires=d.waiting_until if waits else None,
        path=path,
        artifact=artifact,
    )


def notify_of(run: "Run", report: Report) -> None:
    """Tells people at once what can be told; what could not be told stands in the report. Never raises."""
    problems = deliver(run.run_id)
    for problem in problems:
        run.record.timeline.reached("told", f"notification not sent yet: {problem}")
    if problems:
        again = report.model_copy(update={"timeline": tuple(run.record.timeline.events)})
        save(again, render(again, load_runbook(run.spec.slug)), run.record.folder)


def _to_s3(where: str, report: Report, markdown: Markdown) -> None:
    from tasks.report_s3 import upload

    try:
        upload(where, report, markdown)
    except Exception as e:
        log.error("report not uploaded to %s: %s", where, e)


def publish_bad_config(
    slug_: str, target: str, mode: Mode, trigger: str, run_id: str, folder: Path, why: str
) -> State[Any]:
    """The report of a run that could not begin (or go on): a fleet or policy file that cannot be used."""
    report = report_unread(
        slug_,
        target,
        f"bad configuration, nothing was read: {why}",
        "Correct the file, then run again.",
        id=run_id,
        mode=mode.value,
        trigger=trigger,
        flow_run=run_id,
        guards=("this run changed nothing",),
        links=report_links(run_id),
    )
    last_words()
    saved = save(report, render(report, None), folder)
    state_on_server(run_id)
    labels = {"outcome": report.outcome.value, "headline": report.headline[:300], "report": str(saved.markdown or "")}
    label_and_mark_pending(run_id, labels, message_of(report, path=str(saved.markdown or "")), report.ended_at)
    deliver(run_id)
    return Failed(name="Bad configuration", message=report.headline[:400])


def failed_without_report(run_id: str, error: Exception) -> RunFailed:
    """What is raised in its place. No report names the file of a fault of ours, so a label of the run does."""
    failure = failure_of(error)
    if failure.fault:
        with suppress(Exception):
            store.label(run_id, {FAULT_LABEL: failure.fault})
    return failure


def end_state(outcome: Outcome, headline: str) -> State[Any]:
    """The run's last state: its name is the outcome, and the outcome decides its colour in the UI."""
    return State(type=StateType(outcome.row.state_type), name=outcome.row.name, message=headline[:400])
