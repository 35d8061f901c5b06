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
    state = ensure_up()
    return state.ui if state else ""


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(os.path.expanduser(path)) if path else None  # noqa: PTH100, PTH111 - text in, text out


def _parameters(ns: argparse.Namespace) -> dict[str, Any]:
    return {"fleet": _absolute(ns.fleet), "policy": _absolute(ns.policy), "out": _absolute(ns.out)}


def cmd_run(ns: argparse.Namespace) -> int:
    """`gpu-runbooks run`: in this process, so that the first command runs within a second or two."""
    facts = run_online(
        ns.runbook,
        ns.target,
        ns.mode,
        _absolute(ns.fleet),
        _absolute(ns.policy),
        _absolute(ns.out),
        choice=ns.choice or "",
        quiet=ns.json,
        follow=ns.wait,
    )
    return _finish(ns, facts)


def run_online(
    slug: str,
    target: str,
    mode: str,
    fleet: str | None,
    policy: str | None,
    out: str | None,
    *,
    choice: str = "",
    quiet: bool = False,
    follow: bool = False,
) -> dict[str, Any]:
    """Runs a runbook in this process until it ends or asks (`follow`: until it has ended). Returns its facts."""
    _check(slug, target, fleet, policy)
    ui = _ready()
    from deployments.register import load
    from flows.launch import create_pending, run_here

    _show_progress(quiet)
    parameters = {"target": target, "mode": mode, "choice": choice, "fleet": fleet, "policy": policy, "out": out}
    run = create_pending(slug, parameters | {"trigger": "by hand"})
    name = slug.replace("-", "_")
    run_here(load(f"flows.{name}.{name}"), run)
    if follow:
        _follow(str(run.id), quiet)
    return _facts(str(run.id), ui)


def _check(slug: str, target: str, fleet: str | None, policy: str | None) -> None:
    """Bad words and files are refused before anything is started."""
    from flows.config import load_fleet, load_policy, with_target
    from flows.specs import SLUGS, load_spec

    if slug not in SLUGS:
        raise CommandError(f"no runbook {slug!r}; there are: {', '.join(SLUGS)}")
    found = load_fleet(fleet)
    given = bool(fleet or os.environ.get("GPU_RUNBOOKS_FLEET"))
    with_target(found, target, given, load_spec(slug).targets(found))
    load_policy(policy)


def _show_progress(quiet: bool) -> None:
    from flows.progress import LISTENERS

    if not quiet:
        LISTENERS.append(lambda _point, text: print(f"  {text}", file=sys.stderr, flush=True))


def _follow(run_id: str, quiet: bool = False) -> None:
    """Waits until the run has ended. Ctrl-C stops waiting, not the run."""
    from flows import store

    said = ""
    while True:
        run = store.read_run(run_id)
        if run.state is None or run.state.is_final():
            return
        if run.state.name != said:
            said = str(run.state.name)
            if not quiet:
                print(f"  {said} …", file=sys.stderr, flush=True)
        time.sleep(FOLLOW_EVERY_S)


def _facts(run_id: str, ui: str) -> dict[str, Any]:
    """What the command line says of a run."""
    from flows import store

    run = store.read_run(run_id)
    state, outcome = run.state, _outcome(run.labels.get("outcome"))
    return {
        "run": run_id,
        "name": run.name,
        "state": state.name if state else None,
        "message": (state.message or "") if state else "",
        "outcome": outcome.value if outcome else None,
        "headline": str(run.labels.get("headline", "")),
        "report": str(run.labels.get("report", "")),
        "ui": f"{ui}/runs/flow-run/{run_id}" if ui else "",
    }


def _finish(ns: argparse.Namespace, facts: dict[str, Any]) -> int:
    outcome = _outcome(facts["outcome"])
    if ns.json:
        print(json.dumps(facts, indent=1))
    else:
        _print_facts(facts, outcome)
    if outcome is None:
        raise CommandError(f"run {facts['run']} ended as {facts['state']} without a report: {facts['message']}", 3)
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

    _show_progress(ns.json)
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
    run_id = _waiting_run(ns.run)
    _answer(run_id, decision, ns.who or os.environ.get("USER", ""), ns.why, ns.choice)
    if ns.wait:
        _follow(run_id, ns.json)
        return _finish(ns, _facts(run_id, ui))
    print(
        json.dumps({"run": run_id, "decision": decision}) if ns.json else f"{decision}: {run_id}; a worker carries on"
    )
    return 0


def _answer(run_id: str, decision: str, who: str, why: str, choice: str) -> None:
    from flows.approval import answer_run

    answer = {"decision": decision, "who": who, "why": why} | ({"choice": choice} if choice else {})
    problem = answer_run(run_id, answer)
    if problem:
        raise CommandError(f"the server did not take the decision: {problem}")


def decide_and_follow(run_id: str, decision: str, who: str, quiet: bool = False) -> dict[str, Any]:
    """Decides a waiting run and follows it to its end. Returns its facts."""
    ui = _ready()
    _answer(run_id, decision, who, "", "")
    _follow(run_id, quiet)
    return _facts(run_id, ui)


def cmd_approve(ns: argparse.Namespace) -> int:
    """`gpu-runbooks approve RUN`."""
    return _decide(ns, "approve")


def cmd_reject(ns: argparse.Namespace) -> int:
    """`gpu-runbooks reject RUN`."""
    return _decide(ns, "reject")
