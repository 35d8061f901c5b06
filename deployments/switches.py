"""status, freeze, unfreeze and reset-breaker."""

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deployments.contact import lost
from deployments.errors import CommandError
from deployments.server import POOL, ensure_server
from deployments.serving import describe, use_answering_server
from deployments.state import freeze_file
from runbooks.core.clean import one_line
from runbooks.core.waiting import read_time, waits_words
from tasks.freeze_file import read_freeze_file

if TYPE_CHECKING:
    from flows.in_progress import AtWork

LOOK_EVERY_S = 1.0
LONGEST_WAIT_S = 600.0


def cmd_status(ns: argparse.Namespace) -> int:
    """`gpu-runbooks status`: what runs, what waits for a person, freeze and breakers. Starts nothing."""
    facts = describe() | {"freeze_file": read_freeze_file()}
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
        _print(facts)
    if silent and not ns.json:
        print(f"gpu-runbooks: {silent}", file=sys.stderr)
    return silent.exit_code if silent else 0


def _server_facts() -> dict[str, Any]:
    from flows import store
    from flows.guards import FREEZE
    from flows.self_health import read_health
    from flows.ui_pages import Page, ui_url

    health = read_health(POOL)
    return {
        "ui": ui_url(Page.HOME),
        "waiting": [w.model_dump() for w in health.waiting],
        "health": health.model_dump(mode="json", exclude={"waiting"}),
        "running": store.running_runs(),
        "freeze": store.get_variable(FREEZE),
        "breakers": store.variables("gpu_runbooks_breaker_"),
    }


def _print(facts: dict[str, Any]) -> None:
    running = [n for n, up in facts["processes"].items() if up]
    print(f"UI:       {facts['ui'] or '-'} ({'answers' if facts['api_answers'] else 'does not answer'})")
    print(f"running:  {', '.join(running) or 'nothing'}; logs in {facts['logs']}")
    if facts["freeze_file"] is not None:
        print(f"FROZEN on this machine: {facts['freeze_file']}")
    if "waiting" not in facts:
        return
    if facts["freeze"]:
        print(f"FROZEN for all since {facts['freeze'].get('at')}: {facts['freeze'].get('why')}")
    for name, tripped in facts["breakers"].items():
        print(one_line(f"BREAKER {name} tripped at {tripped.get('at')}: {tripped.get('why')}"))
    print(f"runs now: {', '.join(facts['running']) or 'none'}")
    _print_health(facts["health"])
    for w in facts["waiting"]:
        said = waits_words(read_time(w["since"]), read_time(w["expires"]))
        print(one_line(f"QUESTION: {w['run']} {w['name']}. Why: {w['headline']}. {said}"))


def _print_health(h: dict[str, Any]) -> None:
    """What is not as it should be, and who holds what."""
    if h["reaper"] is None:
        age = h["reaper_age_s"]
        print("REAPER:   none runs; the last round was " + (f"{age:.0f} s ago" if age is not None else "never"))
    else:
        others = f"; {h['reapers'] - 1} more stand(s) by" if h["reapers"] > 1 else ""
        print(f"reaper:   last round {h['reaper_age_s']:.0f} s ago, by {h['reaper']['who']}{others}")
    if h["pool_paused"]:
        print("PAUSED:   workers take no runs: a worker is being stopped, or the pool was paused by hand")
    for runs in h["open_runs"]:
        print(one_line(f"open:     {runs['count']} {runs['state']}, the oldest for {runs['oldest_s']:.0f} s: {runs['oldest']}"))
    for k in h["locks"]:
        why = f"; its run has ended, but {k['why']}" if k["why"] else ""
        print(one_line(f"locked:   {k['owner']} for {k['age_s']:.0f} s by {k['holder']} (action run {k['act_run']}){why}"))


def cmd_freeze(ns: argparse.Namespace) -> int:
    """`gpu-runbooks freeze "why"`: the file first, because it needs no server; then the switch for all."""
    if not ns.why.strip():
        raise CommandError("WHY is empty: say in a few words why, every report shows it until `unfreeze`")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    freeze_file().write_text(f"{at} {ns.why}\n", encoding="utf-8")
    try:
        ensure_server()
        from flows.guards import FREEZE
        from flows.store import set_variable

        set_variable(FREEZE, {"at": at, "why": ns.why, "who": os.environ.get("USER", "")})
    except Exception as e:
        said = lost(e) or e
        code = said.exit_code if isinstance(said, CommandError) else 1
        raise CommandError(f"frozen on this machine only; the switch for all could not be set: {said}", code) from e
    try:
        left = _at_work(LONGEST_WAIT_S if ns.wait else 0.0, say=not ns.json)
    except Exception as e:
        said = lost(e) or e
        code = said.exit_code if isinstance(said, CommandError) else 1
        raise CommandError(f"frozen for all; what is still in progress could not be read: {said}", code) from e
    if ns.json:
        print(json.dumps({"frozen": ns.why, "at": at, "in_progress": [s.model_dump(mode="json") for s in left]}))
        return 1 if left and ns.wait else 0
    print(f"frozen: {ns.why}; no step begins from now on")
    for step in left:
        print(f"still in progress: {step}")
    print("nothing is being changed any more" if not left else "what is in progress goes on to its end; `freeze --wait` waits for it")
    return 1 if left and ns.wait else 0


def _at_work(wait_s: float, say: bool) -> "tuple[AtWork, ...]":
    """What is being changed now, after the freeze; looked at again for `wait_s` while there is anything."""
    from flows.clock import server_now
    from flows.in_progress import in_progress

    deadline, told = time.monotonic() + wait_s, False
    while left := in_progress(server_now()):
        if time.monotonic() >= deadline:
            break
        if say and not told:
            print(f"waiting for {', '.join(map(str, left))} …", file=sys.stderr, flush=True)
            told = True
        time.sleep(min(LOOK_EVERY_S, max(0.0, deadline - time.monotonic())))
    return left


def cmd_unfreeze(ns: argparse.Namespace) -> int:
    """`gpu-runbooks unfreeze`."""
    ensure_server()
    from flows.guards import FREEZE
    from flows.store import delete_variable

    was = delete_variable(FREEZE)
    local = freeze_file().exists()
    freeze_file().unlink(missing_ok=True)
    print(
        json.dumps({"was_frozen": was or local})
        if ns.json
        else ("acts are allowed again" if was or local else "nothing was frozen")
    )
    return 0


def cmd_reset_breaker(ns: argparse.Namespace) -> int:
    """`gpu-runbooks reset-breaker`: a person's word that the fleet may be changed again."""
    from flows.config import load_fleet

    fleet = load_fleet(ns.fleet).name
    ensure_server()
    from flows.guards import reset_breaker

    was = reset_breaker(fleet, ns.who or os.environ.get("USER", ""))
    print(
        json.dumps({"fleet": fleet, "was_tripped": was})
        if ns.json
        else f"breaker of fleet {fleet}: {'reset' if was else 'was not tripped'}"
    )
    return 0
