"""`gpu-runbooks freeze`, `unfreeze` and `reset-breaker`: stop all actions, and allow them again."""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deployments.cli.approve import who_types
from deployments.cli.missing_secrets import check_secrets
from deployments.contact import lost
from deployments.errors import CommandError
from deployments.server import ensure_server
from deployments.state import freeze_file

if TYPE_CHECKING:
    from flows.engine.in_progress import AtWork

LOOK_EVERY_S = 1.0
LONGEST_WAIT_S = 600.0


def cmd_freeze(ns: argparse.Namespace) -> int:
    """`gpu-runbooks freeze "why"`: the file first, because it needs no server; then the switch for all."""
    if not ns.why.strip():
        raise CommandError("WHY is empty: give a short reason; every report shows it until `unfreeze`")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    freeze_file().write_text(f"{at} {ns.why}\n", encoding="utf-8")
    try:
        ensure_server()
        from flows.engine.guards import FREEZE
        from flows.store import set_variable

        set_variable(FREEZE, {"at": at, "why": ns.why, "who": who_types()})
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
    print(f"frozen: {ns.why}; no step starts from now on")
    for step in left:
        print(f"still in progress: {step}")
    print("no action is running" if not left else "running steps continue to their end; `freeze --wait` waits for them")
    return 1 if left and ns.wait else 0


def _at_work(wait_s: float, say: bool) -> "tuple[AtWork, ...]":
    """What is being changed now, after the freeze; looked at again for `wait_s` while there is anything."""
    from flows.clock import server_now
    from flows.engine.in_progress import in_progress

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
    from flows.engine.guards import FREEZE
    from flows.store import delete_variable

    was = delete_variable(FREEZE)
    local = freeze_file().exists()
    freeze_file().unlink(missing_ok=True)
    print(
        json.dumps({"was_frozen": was or local})
        if ns.json
        else ("actions are allowed again" if was or local else "nothing was frozen")
    )
    return 0


def cmd_reset_breaker(ns: argparse.Namespace) -> int:
    """`gpu-runbooks reset-breaker`: a person's word that the fleet may be changed again."""
    from flows.config import load_fleet

    given = load_fleet(ns.fleet)
    ensure_server()
    check_secrets(given, ns.fleet)
    from flows.engine.guards import reset_breaker

    fleet = given.name
    was = reset_breaker(fleet, ns.who.strip() or who_types())
    print(
        json.dumps({"fleet": fleet, "was_tripped": was})
        if ns.json
        else f"breaker of fleet {fleet}: {'reset' if was else 'was not tripped'}"
    )
    return 0
