"""Restarts a container by its full id."""

import json
import re
import shlex
from typing import Any

from runbooks.container.parsers.docker import parse_time
from runbooks.container.words import clock
from runbooks.core.args.containers import RestartContainer
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.arguments import takes
from tasks.container.at_work import UNSEEN, refuse_at_work
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import command
from tasks.remote.probe import redact, run_probe
from tasks.transport.base import CommandResult, TransportError

FULL_ID = re.compile(r"[0-9a-f]{64}")
STARTED = ("inspect", "--type", "container", "--format", "{{.State.StartedAt}}")
ANOTHER_LIFE = 75  # exit: it was started again
SAME_LIFE = (  # $1 its id, $2 the life it was looked at in, then the engine's client
    f'id=$1 life=$2; shift 2; now=$("$@" {shlex.join(STARTED)} "$id") || exit; '
    f'[ "$now" = "$life" ] || exit {ANOTHER_LIFE}; exec "$@" restart "$id"'
)
OPT_OUT = "gpu-runbooks.hands-off"  # a container label
QUIET = {  # what it is asked by, and the limit's name
    "window_s": "window_s",
    "cpu_percent": "idle_cpu_percent",
    "io_bytes_per_s": "idle_io_bytes_per_s",
    "socket_bytes_per_s": "idle_socket_bytes_per_s",
}


@takes(RestartContainer)
def restart_container(args: RestartContainer, context: Context) -> ActionResult:
    """`docker restart` of exactly that container; says its start times before and after.

    Refused after another boot, without the full id, when there is no such container, when its label opts out, while any of its
    processes is at work of which that was not known, or when somebody started it again since it was looked at: compared on the node
    right before. An id is never given to another container.
    """
    box, engine = args.container, args.engine
    if not FULL_ID.fullmatch(box):
        raise ActionRefused(RefusalCode.NOT_OURS, f"{box!r} is not a full container id")
    if _run(context, ("cat", "/proc/sys/kernel/random/boot_id")).out.strip() != args.boot_id:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, "the node was booted since the judgment")
    life = _life(context, engine, box)
    before = _inspect(context, engine, box)
    labels = (before.get("Config") or {}).get("Labels") or {}
    if str(labels.get(OPT_OUT, "")).lower() in ("1", "true", "yes"):
        raise ActionRefused(RefusalCode.HANDS_OFF, f"container {box[:12]} opts out by its label {OPT_OUT}")
    _nobody_at_work(context, args)
    done = command(context, context.host, ("sh", "-c", SAME_LIFE, "sh", box, life, *engine), 90)
    shown = shlex.join((*engine, "restart", box))
    if done.exit == ANOTHER_LIFE:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"somebody started container {box[:12]} again in this very moment")
    if done.exit != 0:
        raise TransportError(UnknownReason.FAILED, redact(context, done.err.strip()[-300:]), shown)
    after = _inspect(context, engine, box)
    name = str(after.get("Name", "")).lstrip("/")
    began = (before["State"]["StartedAt"], after["State"]["StartedAt"])
    then, now = (clock(parse_time(text)) for text in began)
    if not after["State"]["Running"] or began[0] == began[1]:
        raise TransportError(UnknownReason.FAILED, f"container {name} is {after['State']['Status']} since {now}", shown)
    return ActionResult(said=(f"container {name} ({box[:12]}) was started at {now}, before that at {then}", UNSEEN))


def _nobody_at_work(context: Context, args: RestartContainer) -> None:
    """Every process of it, over a window. Raises ActionRefused where one is at work, or none could be seen."""
    limits = {asked: context.limit(name, "zombie-gpu") for asked, name in QUIET.items()}
    ask = {"container": args.container, "boot_id": args.boot_id, "moving": [m.plain() for m in args.moving], "service": ""}
    got = run_probe(context.host, "at_work_inside", ask | limits, timeout_s=limits["window_s"] + 40)
    box = args.container[:12]
    refuse_at_work(context, got, box, f"no process of container {box} could be seen")


def _life(context: Context, engine: tuple[str, ...], box: str) -> str:
    """When it was started, in this engine's own form; "" where that cannot be read, which is told by the next look."""
    return _run(context, (*engine, *STARTED, box)).out.strip()


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
