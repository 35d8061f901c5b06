"""`gpu-runbooks show RUN`: what a run found, what it asks, and how to answer. Also printed by `run` where it waits."""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any
from uuid import UUID

from deployments.cli.display import show_outcome, show_page
from deployments.cli.facts import facts_of, outcome_named
from deployments.errors import CommandError
from deployments.serving import use_answering_server
from runbooks.core.clean import one_line
from runbooks.core.names import nearest
from runbooks.core.outcome import Outcome
from runbooks.core.show import Markdown, commands_block, kept, md
from runbooks.core.unmark import plain, without_folds
from runbooks.core.waiting import waits_words

SHORTEST = 6  # characters of an id that is not given whole
MOST = 200  # of the newest runs are looked through for a name


def find_run(name: str) -> str:
    """Id of the run with that id, beginning of an id, or name (one that waits, else the newest). Raises CommandError."""
    from prefect.exceptions import ObjectNotFound

    from flows import store
    from flows.engine.waiting_name import usual_name

    try:
        return str(store.read_run(UUID(name)).id)
    except ValueError:
        pass
    except ObjectNotFound:
        raise CommandError(f"the server has no run {name!r}") from None
    runs = store.find_runs([store.RUNBOOK_TAG], limit=MOST)
    of_name = (r for r in runs if name in (r.name, usual_name(r.name)))
    named = sorted(of_name, key=lambda r: not (r.state and r.state.is_paused()))  # the newest first
    found = named[:1] or [r for r in runs if len(name) >= SHORTEST and str(r.id).startswith(name)]
    if len(found) == 1:
        return str(found[0].id)
    some = "; ".join(f"{r.id} ({r.name})" for r in (found or runs)[:10]) or "none"
    near = "" if found else nearest(name, (usual_name(r.name) for r in runs))
    says = f"more than one run: {some}" if found else f"none of the newest {MOST} runs, among them: {some}"
    raise CommandError(f"{name!r} is {says}" + (f"; nearest: {near}" if near else ""))


def question_page(run_id: str) -> Markdown | None:
    """The whole question, and the commands that answer it; None if the run asks nothing."""
    from flows.engine.knowingly import ways
    from flows.engine.open_question import open_question

    asked = open_question(run_id)
    if asked is None:
        return None
    run = shlex.quote(run_id)
    commands = ways(run, asked.plans)
    parts = [
        asked.text.rstrip("\n"),
        "",
        md(f"Nothing is changed before someone answers. {waits_words(asked.since, asked.until)}"),
        "",
        "To allow " + ("one of them:" if len(commands) > 1 else "it:"),
        commands_block(f"{way} --who NAME" for way in commands),
        "To refuse:",
        commands_block([f"gpu-runbooks reject {run} --who NAME"]),
    ]
    return kept("\n".join(parts) + "\n")


def report_page(path: str) -> Markdown | None:
    """The report's page, if it lies on this machine."""
    try:
        return kept(Path(path).read_text(encoding="utf-8")) if path else None
    except (OSError, UnicodeDecodeError):
        return None


def _report_data(path: str) -> Any:
    try:
        return json.loads(Path(path).with_suffix(".json").read_text(encoding="utf-8")) if path else None
    except (OSError, ValueError):
        return None


def refusals_of(report: str) -> list[str]:
    """What held a run's plan back, with its code, by the report at that path; [] where it is not on this machine."""
    found = (_report_data(report) or {}).get("refusals") or ()
    return [one_line(f"held back ({r['code']}): {r['why']}") for r in found]


def cmd_show(ns: argparse.Namespace) -> int:
    """0 if it could be shown, whatever it says."""
    use_answering_server()
    from flows.engine.open_question import open_question  # Prefect reads where its server is when it is imported

    run_id = find_run(ns.run)
    facts = facts_of(run_id)
    if ns.web:
        if not facts["ui"]:
            raise CommandError("the address of this server's UI is not known here")
        print(json.dumps({"run": run_id, "ui": facts["ui"]}) if ns.json else facts["ui"])
        return 0
    question = question_page(run_id)
    if ns.json:
        asked = open_question(run_id) if question else None
        more = {"question": plain(question) if question else "", "choices": [p.name for p in asked.plans] if asked else []}
        print(json.dumps(facts | more | {"data": _report_data(facts["report"])}, indent=1))
        return 0
    page = report_page(facts["report"])
    print(f"{facts['name']} ({run_id}): {facts['state']}\n")
    outcome = outcome_named(facts["outcome"])
    if page:
        show_page(without_folds(page), outcome)
        print()
    else:
        show_outcome(outcome, outcome.row.name if outcome else str(facts["state"]), facts["headline"])
    print(f"whole report: {facts['report']}" + ("" if page else " (not on this machine)") if facts["report"] else "no report yet")
    if question:
        print()
        show_page(question, Outcome.WAITING)
    return 0
