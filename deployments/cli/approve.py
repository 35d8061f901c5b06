"""`gpu-runbooks approve` and `reject`: the decision on a waiting run, from the command line."""

import argparse
import getpass
import json
import os
import shlex
import sys
from typing import Any

from deployments.cli.facts import facts_of, outcome_named
from deployments.cli.follow import follow, why_untaken
from deployments.cli.run import finish, ready
from deployments.errors import CommandError
from deployments.own_server import own_server
from deployments.pool import POOL
from deployments.serving import use_answering_server
from runbooks.core.clean import one_line
from runbooks.core.names import nearest


def _waiting_run(name: str) -> str:
    """Id of the waiting run with that id, id prefix or name. Raises CommandError."""
    from prefect.client.schemas.objects import StateType

    from flows import store
    from flows.engine.waiting_name import usual_name

    waiting = store.find_runs([store.RUNBOOK_TAG], [StateType.PAUSED])
    found = [r for r in waiting if name in (str(r.id), r.name, usual_name(r.name)) or (len(name) >= 6 and str(r.id).startswith(name))]
    if len(found) == 1:
        return str(found[0].id)
    listed = "; ".join(f"{r.id} ({r.name})" for r in (found or waiting)) or "none"
    near = "" if found else nearest(name, (usual_name(r.name) for r in waiting))
    said = f"{name!r} is {'more than one waiting run' if found else 'no waiting run' + _as_it_is(name)}; waiting: {listed}"
    raise CommandError(f"{said}; nearest: {near}" if near else said)


def _as_it_is(name: str) -> str:
    """What the run of that name is instead of waiting; "" if there is none."""
    from deployments.cli.show import find_run

    try:
        facts = facts_of(find_run(name))
    except CommandError:
        return ""
    outcome = outcome_named(facts["outcome"])
    return f" (it is: {outcome.row.name if outcome else facts['state']}; `gpu-runbooks show {facts['run']}` says why)"


def _decide(ns: argparse.Namespace, decision: str) -> int:
    use_answering_server()
    run_id = _waiting_run(ns.run)
    choice = _choice(run_id, decision, ns.choice, ns.why)
    ready()  # a worker is to carry on
    code = ns.code or _approver_code(run_id, decision)
    _answer(run_id, decision, ns.who.strip() or who_types(), ns.why, choice, code)
    if ns.wait:
        follow(run_id, ns.json, or_asks=True)
        return finish(ns, facts_of(run_id))
    untaken = _untaken(run_id)
    if ns.json:
        print(json.dumps({"run": run_id, "decision": decision, "untaken": untaken}))
    else:
        print(f"{decision}: {run_id}; {untaken or 'a worker continues the run'}")
    return 0


def _untaken(run_id: str) -> str:
    """Why no worker continues it, "" if one does. The worker that `up` starts on this machine may not have reported yet."""
    from flows import store

    return why_untaken(store.read_run(run_id).work_pool_name or POOL)[0] if own_server() else ""


def _choice(run_id: str, decision: str, choice: str, why: str) -> str:
    """The plan that is approved, by its name. Raises CommandError where it is not said which one, or not rightly."""
    from flows.engine.knowingly import named, unknowing
    from flows.engine.open_question import open_question

    asked = open_question(run_id)
    plans = asked.plans if asked and decision == "approve" else ()
    names = tuple(p.name for p in plans)
    listed = " or ".join(f"--choice {shlex.quote(one_line(name))}" for name in names)
    if names and choice and choice not in names:
        raise CommandError(f"the run offers no plan {choice!r}; {listed}")
    if len(names) > 1 and not choice:
        raise CommandError(f"the run offers {len(names)} plans; choose one: {listed}; `gpu-runbooks show {run_id}` shows them")
    if plans and (problem := unknowing(named(plans, choice), {"choice": choice, "why": why})):
        raise CommandError(f"{problem}: {listed} --why REASON")
    return choice


def who_types() -> str:
    """The name under which somebody is logged in here; never empty."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()} of this machine"


def _approver_code(run_id: str, decision: str) -> str:
    """The approver code, asked for where the run's policy wants one. The engine checks it."""
    from flows import store
    from flows.engine.approval import CODES

    wanted = str(store.read_run(run_id).labels.get(CODES, "no"))
    if decision != "approve" or wanted == "no":
        return ""
    if sys.stdin.isatty():
        return getpass.getpass("Code of your authenticator (empty if the plan is not destructive): ").strip()
    if wanted == "needed":
        print("a destructive plan needs --code; without it the run asks again", file=sys.stderr)
    return ""


def _answer(run_id: str, decision: str, who: str, why: str, choice: str, code: str = "") -> None:
    from flows.engine.approval import answer_run

    answer = {"decision": decision, "who": who, "why": why} | ({"choice": choice} if choice else {})
    answer |= {"code": code} if code else {}
    problem = answer_run(run_id, answer)
    if problem:
        raise CommandError(f"the server did not accept the decision: {problem}")


def decide_and_follow(run_id: str, decision: str, who: str, quiet: bool = False, choice: str = "") -> dict[str, Any]:
    """Decides a waiting run and follows it to its end, or until it asks again. Returns its facts."""
    ready()
    _answer(run_id, decision, who, "", choice)
    follow(run_id, quiet, or_asks=True)
    return facts_of(run_id)


def cmd_approve(ns: argparse.Namespace) -> int:
    """`gpu-runbooks approve RUN`."""
    return _decide(ns, "approve")


def cmd_reject(ns: argparse.Namespace) -> int:
    """`gpu-runbooks reject RUN`."""
    return _decide(ns, "reject")
