"""`gpu-runbooks status`: shows open questions, current problems, running actions, and the state of the engine itself."""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deployments.cli.ages import ago, began, moment, since, span
from deployments.cli.display import show_lines
from deployments.contact import lost
from deployments.errors import CommandError
from deployments.own_server import own_server
from deployments.pool import POOL
from deployments.serving import describe, use_answering_server
from runbooks.core.clean import one_line
from runbooks.core.outcome import Outcome
from runbooks.core.waiting import waits_words
from tasks.freeze_file import read_freeze_file

MOST = 10  # lines of a kind; the landing page has them all
LONGEST = 160


def cmd_status(ns: argparse.Namespace) -> int:
    """Starts nothing."""
    facts = describe() | {"own_server": own_server(), "freeze_file": read_freeze_file()}
    silent: CommandError | None = None
    try:
        use_answering_server()
        facts |= {"api_answers": True} | _server_facts()
    except Exception as e:
        silent = e if isinstance(e, CommandError) else lost(e)
        if silent is None:
            raise
        facts |= {"api_answers": False, "error": str(silent), "exit_code": silent.exit_code}
    if ns.json:
        print(json.dumps(facts, indent=1, default=str))
    else:
        show_lines(status_lines(facts, datetime.now(UTC)))
    return silent.exit_code if silent else 0


def _server_facts() -> dict[str, Any]:
    from flows import store
    from flows.clock import server_now
    from flows.engine.guards import FREEZE
    from flows.self_health import read_health
    from flows.sweep.board import wrong_now
    from flows.ui_pages import UiPage, ui_url

    health = read_health(POOL)
    return {
        "at": server_now().isoformat(timespec="seconds"),
        "ui": ui_url(UiPage.HOME),
        "waiting": [w.model_dump() for w in health.waiting],
        "wrong": [v.model_dump(mode="json", exclude={"link"}) for v in wrong_now()],
        "health": health.model_dump(mode="json", exclude={"waiting"}),
        "running": store.running_runs(),
        "freeze": store.get_variable(FREEZE),
        "breakers": store.variables("gpu_runbooks_breaker_"),
    }


def status_lines(facts: dict[str, Any], now: datetime) -> Iterator[str]:
    """The facts of `--json` for people: a heading in capitals, then its lines; `now` where the server did not say."""
    now = moment(facts.get("at")) or now
    if "waiting" in facts:
        asked = [line for w in facts["waiting"][:MOST] for line in _question(w, now)]
        yield from _part("WAITS FOR A PERSON", asked, len(facts["waiting"]) - MOST)
    wrong = [*_switches(facts, now), *_engine(facts, now), *_found(facts, now)]
    yield from _part("WRONG NOW", wrong, len(facts.get("wrong", ())) - MOST)
    if "waiting" in facts:
        yield from _part("AT WORK", list(_work(facts, now)))
    yield from _part("SERVER", list(_server(facts)))


def _part(title: str, lines: list[str], more: int = 0) -> Iterator[str]:
    yield title if lines else f"{title}: nothing is known here" if title == "WRONG NOW" else f"{title}: nothing"
    yield from (f"  {' ' * (len(line) - len(line.lstrip(' ')))}{one_line(line, 400)}" for line in lines)
    if more > 0:
        yield f"  … and {more} more: `gpu-runbooks status --json`"


def _question(w: dict[str, Any], now: datetime) -> Iterator[str]:
    yield f"{w['name']}, {began(w['age_s'], now)}: {one_line(w['headline'], LONGEST)}"
    yield f"    {waits_words(None, moment(w['expires']))}"
    yield f"    gpu-runbooks show {w['run']}"


def _switches(facts: dict[str, Any], now: datetime) -> Iterator[str]:
    """What a person switched, or a budget that was used up."""
    here, for_all = facts["freeze_file"], facts.get("freeze") or {}
    at, _, why = str(here).strip().partition(" ")
    when = moment(at)
    same = here is not None and bool(for_all) and why == str(for_all.get("why"))  # one `freeze` sets both
    if here is not None and not same:
        yield f"frozen on this machine {since(when, now)}: {why}" if when else f"frozen on this machine: {here}"
    if for_all:
        whom = "for all, and on this machine" if same else "for all"
        yield f"frozen {whom}{_since(for_all, now)}: {for_all.get('why')}; `gpu-runbooks unfreeze` ends it"
    for name, tripped in facts.get("breakers", {}).items():
        yield f"breaker of fleet {name} tripped{_since(tripped, now)}: {tripped.get('why')}; `gpu-runbooks reset-breaker` resets it"


def _since(switch: dict[str, Any], now: datetime) -> str:
    at = moment(switch.get("at"))
    return f" {since(at, now)}" if at else ""


def _engine(facts: dict[str, Any], now: datetime) -> Iterator[str]:
    """What is not as it should be with the engine itself."""
    if not facts["api_answers"]:
        yield f"nothing can be asked or changed: {facts['error']}"
        return
    h = facts["health"]
    if h["reaper"] is None:
        age = h["reaper_age_s"]
        last = ago(age) if age is not None else "never"
        yield f"no reaper is running; its last round was {last}: runs of dead processes are not ended"
    if h["pool_paused"]:
        yield "workers accept no runs: a worker is stopping, or the pool was paused by hand"
    if facts["own_server"] and not h["workers"]:
        yield f"no worker is there: approved runs do not continue; start one with `prefect worker start --pool {POOL}`"
    dead = [n for n in ("worker", "reaper") if not facts["processes"][n]]
    if dead and facts["processes"]["server"] and not facts["own_server"]:
        yield f"not running on this machine: {', '.join(dead)}; `gpu-runbooks up` starts what is missing"
    for k in (k for k in h["locks"] if k["why"]):
        held = f"{k['owner']} is locked, {began(k['age_s'], now)}, by {k['holder']}"
        yield f"{held}: the run has ended, but {k['why']} (action run {k['act_run']})"


def _found(facts: dict[str, Any], now: datetime) -> Iterator[str]:
    """What the newest runs found wrong."""
    for v in facts.get("wrong", ())[:MOST]:
        at = moment(v["at"])
        seen = f", {ago((now - at).total_seconds())}" if at else ""
        yield f"{v['target']} ({v['runbook']}{seen}), {Outcome(v['outcome']).row.name}: {one_line(v['headline'], LONGEST)}"


def _work(facts: dict[str, Any], now: datetime) -> Iterator[str]:
    h = facts["health"]
    if facts["running"]:
        yield f"runs: {', '.join(facts['running'])}"
    for runs in (r for r in h["open_runs"] if r["state"] != "paused"):
        yield f"{runs['count']} {runs['state']}, the oldest for {span(runs['oldest_s'])}: {runs['oldest']}"
    for k in (k for k in h["locks"] if not k["why"]):
        yield f"{k['owner']} is being changed, {began(k['age_s'], now)}, by {k['holder']} (action run {k['act_run']})"


def _server(facts: dict[str, Any]) -> Iterator[str]:
    running = [n for n, up in facts["processes"].items() if up]
    yield f"UI:      {facts['ui']} ({'answers' if facts['api_answers'] else 'does not answer'})" if facts["ui"] else "UI:      none yet"
    if facts["ui"] and not facts["own_server"]:
        yield "log-in:  `gpu-runbooks login`"
    yield f"running: {', '.join(running) or 'nothing'}; logs in {facts['logs']}"
    h = facts.get("health")
    if h and h["reaper"] is not None:
        others = f"; {h['reapers'] - 1} more stand(s) by" if h["reapers"] > 1 else ""
        yield f"reaper:  last round {ago(h['reaper_age_s'])}, by {h['reaper']['who']}{others}"
