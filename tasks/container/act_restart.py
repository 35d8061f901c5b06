"""Restarts a container by its full id."""

import json
import re
from typing import Any

from runbooks.core.args.containers import RestartContainer
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import command
from tasks.remote.probe import redact
from tasks.transport.base import CommandResult, TransportError

FULL_ID = re.compile(r"[0-9a-f]{64}")
OPT_OUT = "gpu-runbooks.hands-off"  # a container label


@takes(RestartContainer)
def restart_container(args: RestartContainer, context: Context) -> ActionResult:
    """`docker restart` of exactly that container; says its start times before and after.

    Refused after another boot, without the full id, when there is no such container, or when its label opts out.
    An id is never given to another container, so that acting by it needs no further comparison.
    """
    box, engine = args.container, args.engine
    if not FULL_ID.fullmatch(box):
        raise ActionRefused(RefusalCode.NOT_OURS, f"{box!r} is not a full container id")
    if _run(context, ("cat", "/proc/sys/kernel/random/boot_id")).out.strip() != args.boot_id:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, "the node was booted since the judgment")
    before = _inspect(context, engine, box)
    labels = (before.get("Config") or {}).get("Labels") or {}
    if str(labels.get(OPT_OUT, "")).lower() in ("1", "true", "yes"):
        raise ActionRefused(RefusalCode.HANDS_OFF, f"container {box[:12]} opts out by its label {OPT_OUT}")
    done = command(context, context.host, (*engine, "restart", box), 90)
    if done.exit != 0:
        raise TransportError(UnknownReason.FAILED, redact(context, done.err.strip()[-300:]), done.command)
    after = _inspect(context, engine, box)
    name = str(after.get("Name", "")).lstrip("/")
    began = (before["State"]["StartedAt"], after["State"]["StartedAt"])
    if not after["State"]["Running"] or began[0] == began[1]:
        raise TransportError(
            UnknownReason.FAILED, f"container {name} is {after['State']['Status']} since {began[1]}", done.command
        )
    return ActionResult(said=(f"container {name} ({box[:12]}) was started at {began[1]}, before that at {began[0]}",))


def _inspect(context: Context, engine: tuple[str, ...], box: str) -> dict[str, Any]:
    done = _run(context, (*engine, "inspect", "--type", "container", box))
    if done.exit != 0:
        if "no such container" in done.err.lower():
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"there is no container {box[:12]} any more")
        raise TransportError(UnknownReason.FAILED, redact(context, done.err.strip()[-300:]), done.command)
    found: list[dict[str, Any]] = json.loads(done.out)
    if len(found) != 1 or found[0].get("Id") != box:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the engine answers for {box[:12]} with another container")
    return found[0]


def _run(context: Context, argv: tuple[str, ...], timeout_s: float = 20) -> CommandResult:
    return context.host.run(argv, timeout_s=timeout_s, limit_bytes=4 << 20)
