"""`gpu-runbooks run` and `nightly`, through the Prefect server."""

import argparse
import atexit
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deployments.cli.console import brief
from deployments.cli.display import show_outcome, show_page
from deployments.cli.facts import facts_of, outcome_named, report_fault
from deployments.cli.follow import follow
from deployments.cli.missing_secrets import check_secrets
from deployments.cli.reading_line import ReadingLine
from deployments.cli.run_options import check_options, parse_options
from deployments.cli.summary import report_at, show_summary
from deployments.contact import lost
from deployments.errors import FAULT, NO_SERVER, CommandError
from deployments.paths import absolute
from deployments.reports import check_reports
from deployments.server import ensure_up
from runbooks.core.outcome import Outcome

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet


def ready() -> None:
    """Starts what is needed."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "ERROR")  # the UI still gets every line
    ensure_up()


def _parameters(ns: argparse.Namespace) -> dict[str, Any]:
    return {"fleet": absolute(ns.fleet), "policy": absolute(ns.policy), "out": absolute(ns.out)}


def cmd_run(ns: argparse.Namespace) -> int:
    """`gpu-runbooks run`: in this process, so that the first command runs within a second or two."""
    facts = run_online(
        ns.runbook,
        ns.target,
        ns.mode,
        absolute(ns.fleet),
        absolute(ns.policy),
        absolute(ns.out),
        choice=ns.choice or "",
        options=check_options(ns.runbook, parse_options(ns.option)),
        quiet=ns.json,
        to_the_end=ns.wait,
    )
    return finish(ns, facts)


def run_online(
    slug: str,
    target: str,
    mode: str,
    fleet: str | None,
    policy: str | None,
    out: str | None,
    *,
    choice: str = "",
    options: dict[str, str] | None = None,
    quiet: bool = False,
    to_the_end: bool = False,
    allowed: str = "",
) -> dict[str, Any]:
    """Runs a runbook in this process until it ends or asks (`to_the_end`: until it has ended). Returns its facts.

    `allowed`: digest of the one plan that the operator's command named, and the operator's name.
    """
    given = _check(slug, target, fleet, policy)
    check_reports(out, given)
    ready()
    check_secrets(given, fleet)
    from deployments.register import load
    from flows.launch import create_pending, run_here
    from flows.specs import entrypoint

    _show_progress(quiet)
    parameters = {"target": target, "mode": mode, "choice": choice, "fleet": fleet, "policy": policy, "out": out}
    run = create_pending(slug, parameters | {"trigger": "by hand", "options": cleaned(options)})
    if allowed:
        from flows.engine.approval import IN_ADVANCE
        from flows.store import label

        label(run.id, {IN_ADVANCE: allowed})
    with report_named(str(run.id), fleet, out):
        run_here(load(entrypoint(slug)), run)
    if to_the_end:
        follow(str(run.id), quiet)
    return facts_of(str(run.id))


@contextmanager
def report_named(run_id: str, fleet: str | None, out: str | None) -> Iterator[None]:
    """Where the server is gone at the run's end, the error names the report: it is saved on this machine all the same."""
    try:
        yield
    except Exception as error:
        from flows.config import load_fleet
        from tasks.report_store import reports_root, saved_report

        no_server = lost(error)
        found = no_server and saved_report(reports_root(absolute(out) or load_fleet(fleet).reports.folder), run_id)
        if not found:
            raise
        raise CommandError(f"{no_server}. The run has ended; its report: {found}", NO_SERVER) from error


def cleaned(options: dict[str, str] | None) -> dict[str, str]:
    """Options as they may be stored: Prefect keeps parameters, so secrets go first."""
    from tasks.installation import installation_redactor

    return {name: installation_redactor().text(value) for name, value in (options or {}).items()}


def _check(slug: str, target: str, fleet: str | None, policy: str | None) -> "Fleet":
    """Bad words and files are refused before anything is started. Returns the fleet."""
    from flows.config import load_fleet, load_policy, with_target
    from flows.specs import SLUGS, load_spec
    from runbooks.core.names import there_are

    if slug not in SLUGS:
        raise CommandError(f"no runbook {slug!r}; {there_are(slug, SLUGS)}")
    found = load_fleet(fleet)
    given = bool(fleet or os.environ.get("GPU_RUNBOOKS_FLEET"))
    with_target(found, target, given, load_spec(slug).targets(found))
    load_policy(policy)
    return found


def _show_progress(quiet: bool) -> None:
    from flows.engine.progress import LISTENERS
    from tasks import diagnostic

    brief()
    if not quiet:
        line = ReadingLine()
        LISTENERS.append(line.passed)
        diagnostic.LISTENERS.append(line.begins)
        atexit.register(line.end)


def finish(ns: argparse.Namespace, facts: dict[str, Any]) -> int:
    outcome, fault = outcome_named(facts["outcome"]), facts.get("fault", "")
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        _printfacts(facts, outcome)
    if outcome is None:
        said = f"run {facts['run']} ended as {facts['state']} without a report: {facts['message']}"
        print(f"gpu-runbooks: {said}", file=sys.stderr, flush=True)
    if fault:
        return report_fault(fault)
    return outcome.exit_code if outcome else 3


def _printfacts(facts: dict[str, Any], outcome: Outcome | None) -> None:
    report = None if outcome is Outcome.WAITING else report_at(facts["report"])  # a question says it all below
    if report:
        show_summary(report)
    else:
        show_outcome(outcome, outcome.row.name if outcome else str(facts["state"]), facts["headline"])
    if facts["report"]:
        print(f"report: {facts['report']}")
    if facts["ui"]:
        print(f"UI:     {facts['ui']}")
    if outcome is Outcome.WAITING:
        from deployments.cli.show import question_page

        question = question_page(facts["run"])
        if question:
            print()
            show_page(question, outcome)


def cmd_nightly(ns: argparse.Namespace) -> int:
    """`gpu-runbooks nightly`: succeeds when the report exists."""
    from flows.config import load_fleet, load_policy

    fleet = load_fleet(ns.fleet)
    load_policy(ns.policy)
    check_reports(ns.out, fleet)
    ready()
    check_secrets(fleet, ns.fleet)
    from deployments.register import load
    from flows.launch import create_pending, run_here

    _show_progress(ns.json)
    run = create_pending("nightly", _parameters(ns) | ({"detail": True} if ns.detail else {}))
    with report_named(str(run.id), ns.fleet, ns.out):
        run_here(load("flows.sweep.nightly.nightly"), run)
    from flows import store
    from flows.ui_pages import UiPage, ui_url

    stored = store.read_run(run.id)
    report = str(stored.labels.get("report", ""))
    if not report:
        from tasks.fault_file import FAULT_LABEL

        fault, why = str(stored.labels.get(FAULT_LABEL, "")), stored.state.message if stored.state else ""
        raise CommandError(f"the nightly {run.id} wrote no report: {why}" + (f"; {fault}" if fault else ""), FAULT if fault else 3)
    facts: dict[str, Any] = {
        "run": str(run.id),
        "outcome": stored.labels.get("outcome"),
        "report": report,
        "json": str(stored.labels.get("report.json", "")),
        "ui": ui_url(UiPage.RUN, str(run.id)),
    }
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        from deployments.cli.show_nightly import show_nightly

        show_nightly(facts["json"], str(stored.labels.get("table", "")))
        print(f"report: {report}\njson:   {facts['json']}\nUI:     {facts['ui']}")
    return 0
