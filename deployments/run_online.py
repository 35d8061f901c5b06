"""run, nightly, approve and reject, through the Prefect server."""

import argparse
import json
import os
import sys
import time
from typing import Any

from deployments.errors import CommandError
from deployments.server import ensure_up
from runbooks.core.report import Outcome

FOLLOW_EVERY_S = 1.0


def _ready() -> str:
    """Starts what is needed; returns the UI address ("" with a server of the operator's own)."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "ERROR")  # the UI still gets every line
    try:
        state = ensure_up()
    except RuntimeError as e:
        raise CommandError(str(e), 3) from e
    return state.ui if state else ""


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(os.path.expanduser(path)) if path else None  # noqa: PTH100, PTH111 - text in, text out


def _parameters(ns: argparse.Namespace) -> dict[str, Any]:
    return {"fleet": _absolute(ns.fleet), "policy": _absolute(ns.policy), "out": _absolute(ns.out)}


def cmd_run(ns: argparse.Namespace) -> int:
    """`gpu-runbooks run`: in this process, so that the first command runs within a second or two."""
    from flows.config import load_fleet, load_policy, with_target
    from flows.specs import SLUGS

    if ns.runbook not in SLUGS:
        raise CommandError(f"no runbook {ns.runbook!r}; there are: {', '.join(SLUGS)}")
    fleet = load_fleet(ns.fleet)
    with_target(fleet, ns.target, bool(ns.fleet or os.environ.get("GPU_RUNBOOKS_FLEET")))
    load_policy(ns.policy)
    ui = _ready()
    from deployments.register import load
    from flows.launch import create_pending, run_here

    _show_progress(ns)
    slug = ns.runbook
    parameters = _parameters(ns) | {
        "target": ns.target,
        "mode": ns.mode,
        "choice": ns.choice or "",
        "trigger": "by hand",
    }
    run = create_pending(slug, parameters)
    name = slug.replace("-", "_")
    run_here(load(f"flows.{name}.{name}"), run)
    if ns.wait:
        _follow(str(run.id))
    return _finish(ns, str(run.id), ui)


def _show_progress(ns: argparse.Namespace) -> None:
    from flows.progress import LISTENERS

    if not ns.json:
        LISTENERS.append(lambda _point, text: print(f"  {text}", file=sys.stderr, flush=True))


def _follow(run_id: str) -> None:
    """Waits until the run has ended. Ctrl-C stops waiting, not the run."""
    from flows import store

    said = ""
    while True:
        run = store.read_run(run_id)
        if run.state is None or run.state.is_final():
            return
        if run.state.name != said:
            said = str(run.state.name)
            print(f"  {said} …", file=sys.stderr, flush=True)
        time.sleep(FOLLOW_EVERY_S)


def _finish(ns: argparse.Namespace, run_id: str, ui: str) -> int:
    from flows import store

    run = store.read_run(run_id)
    state = run.state
    outcome = _outcome(run.labels.get("outcome"))
    facts = {
        "run": run_id,
        "name": run.name,
        "state": state.name if state else None,
        "outcome": outcome.value if outcome else None,
        "headline": str(run.labels.get("headline", "")),
        "report": str(run.labels.get("report", "")),
        "ui": f"{ui}/runs/flow-run/{run_id}" if ui else "",
    }
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        _print_facts(facts, outcome)
    if outcome is None:
        raise CommandError(
            f"run {run_id} ended as {facts['state']} without a report: {state.message if state else ''}", 3
        )
    return outcome.exit_code


def _print_facts(facts: dict[str, Any], outcome: Outcome | None) -> None:
    print(f"{facts['outcome'] or facts['state']}: {facts['headline']}")
    if facts["report"]:
        print(f"report: {facts['report']}")
    if facts["ui"]:
        print(f"UI:     {facts['ui']}")
    if outcome is Outcome.WAITING:
        print(f"decide: gpu-runbooks approve {facts['run']}   or   gpu-runbooks reject {facts['run']}")


def _outcome(text: object) -> Outcome | None:
    try:
        return Outcome(str(text))
    except ValueError:
        return None


def cmd_nightly(ns: argparse.Namespace) -> int:
    """`gpu-runbooks nightly`: succeeds when the report exists."""
    from flows.config import load_fleet

    load_fleet(ns.fleet)
    ui = _ready()
    from deployments.register import load
    from flows.launch import create_pending, run_here

    _show_progress(ns)
    run = create_pending("nightly", _parameters(ns))
    run_here(load("flows.nightly.nightly"), run)
    from flows import store

    stored = store.read_run(run.id)
    report = str(stored.labels.get("report", ""))
    facts = {
        "run": str(run.id),
        "outcome": stored.labels.get("outcome"),
        "report": report,
        "json": str(stored.labels.get("report.json", "")),
        "ui": f"{ui}/runs/flow-run/{run.id}" if ui else "",
    }
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        print(str(stored.labels.get("table", "")))
        print(f"report: {report}\njson:   {facts['json']}\nUI:     {ui or os.environ.get('PREFECT_API_URL')}")
    if not report:
        raise CommandError(f"the nightly wrote no report: {stored.state.message if stored.state else ''}", 3)
    return 0


def _waiting_run(name: str) -> str:
    """Id of the waiting run with that id, id prefix or name. Raises CommandError."""
    from prefect.client.schemas.objects import StateType

    from flows import store

    waiting = store.find_runs([store.RUNBOOK_TAG], [StateType.PAUSED])
    found = [r for r in waiting if name in (str(r.id), r.name) or (len(name) >= 6 and str(r.id).startswith(name))]
    if len(found) == 1:
        return str(found[0].id)
    listed = "; ".join(f"{r.id} ({r.name})" for r in (found or waiting)) or "none"
    raise CommandError(f"{name!r} is {'more than one waiting run' if found else 'no waiting run'}; waiting: {listed}")


def _decide(ns: argparse.Namespace, decision: str) -> int:
    ui = _ready()
    from flows.approval import answer_run

    run_id = _waiting_run(ns.run)
    answer = {"decision": decision, "who": ns.who or os.environ.get("USER", ""), "why": ns.why}
    if ns.choice:
        answer["choice"] = ns.choice
    problem = answer_run(run_id, answer)
    if problem:
        raise CommandError(f"the server did not take the decision: {problem}")
    if ns.wait:
        _follow(run_id)
        return _finish(ns, run_id, ui)
    print(
        json.dumps({"run": run_id, "decision": decision}) if ns.json else f"{decision}: {run_id}; a worker carries on"
    )
    return 0


def cmd_approve(ns: argparse.Namespace) -> int:
    """`gpu-runbooks approve RUN`."""
    return _decide(ns, "approve")


def cmd_reject(ns: argparse.Namespace) -> int:
    """`gpu-runbooks reject RUN`."""
    return _decide(ns, "reject")
