"""Changes something on a machine: the one place that does. Every command of an act holds its owner's lock file there."""

import ast
import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from runbooks.core.names import slug
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context, RunningAction
from tasks.installation import lasting
from tasks.parsed import module_of
from tasks.remote.probe import redact, run_probe, run_program
from tasks.remote.program import program
from tasks.transport.base import CommandResult, Host, TransportError
from tasks.transport.local import LocalHost

FOLDER_ENV = "GPU_RUNBOOKS_LOCKS"  # of the engine: where lock files lie on every machine, if not at the usual place
GRACE_S = 10.0  # beyond a command's time-out: where nobody is left to end it, it ends itself


def change(
    context: Context, host: Host, probe: str, data: Mapping[str, Any], timeout_s: float, *, text: str = "",
    limit_bytes: int = 8 << 20,
) -> dict[str, Any]:  # fmt: skip
    """The changing probe's answer. Raises ActionRefused (nothing was changed) or TransportError (how far it got is unknown).

    `text`: of a program that is none of the probes. Refused as well while a command of another act on the same owner still works
    there, whatever became of its engine; and where `data` is not what the probe's own table WANTS. It is given no more time than
    the lock of its step has left."""
    acting = context.acting or RunningAction(run=f"none (process {os.getpid()})", owner=host.name)
    timeout_s = min(timeout_s, acting.ends - time.monotonic())
    if timeout_s <= 0:
        raise TransportError(UnknownReason.FAILED, "not sent: the time that its step holds the lock for is over", probe)
    text = text or program(probe)
    lock: dict[str, Any] = {"run": acting.run, "probe": probe, "limit_s": timeout_s + GRACE_S, "wants": wants_of(text)}
    got = run_program(
        host, probe, program("node_lock"), data, timeout_s=timeout_s, limit_bytes=limit_bytes,
        more=(json.dumps(_place(host, acting.lock or acting.owner) | lock), text),
    )  # fmt: skip
    if "refused" in got:
        raise ActionRefused(RefusalCode(str(got["code"])), redact(context, str(got["refused"])))
    if "failed" in got:
        raise TransportError(UnknownReason.FAILED, redact(context, str(got["failed"])), probe)
    return got


@cache
def wants_of(text: str) -> dict[str, Any]:
    """The table WANTS of a changing program: what it must be told. {} if it has none."""
    found: dict[str, Any] = {}
    for node in module_of(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WANTS":
            found = ast.literal_eval(node.value)
    return found


def command(context: Context, host: Host, argv: Sequence[str], timeout_s: float) -> CommandResult:
    """One command that changes something, as it ended. Raises as `change` does, and where the tool is missing or denied."""
    shown = shlex.join(argv)
    try:
        got = change(context, host, "run_command", {"argv": list(argv)}, timeout_s)
    except TransportError as e:
        e.shown_as(shown)
        raise
    if "missing" in got:
        raise TransportError(UnknownReason.TOOL_MISSING, f"{argv[0]} is not installed on {host.name}", shown)
    if "denied" in got:
        raise TransportError(UnknownReason.DENIED, str(got["denied"]), shown)
    return CommandResult(command=shown, exit=got["exit"], out=got["out"], err=got["err"], seconds=0.0)


def _place(host: Host, name: str) -> dict[str, str]:
    """The lock file's name and folder. Here, without root, it lies in the state folder, which all processes of this
    installation share: services see a home and a /tmp of their own. "": the usual place of that machine."""
    here = isinstance(host, LocalHost) and os.geteuid() != 0
    return {"owner": slug(name), "folder": os.environ.get(FOLDER_ENV) or (str(lasting("locks")) if here else "")}


def ask_over(host: Host, lock: str, act_run: str) -> tuple[bool | None, str]:
    """Does a command of an act with that lock still work on that machine? (True, who), (False, ""), or (None, why not known).

    False is final: a command of `act_run` that comes later is refused there. Raises TransportError."""
    got = run_probe(host, "lock_state", _place(host, lock) | {"run": act_run}, timeout_s=15)
    state, said = str(got.get("state", "")), str(got.get("said", ""))
    return {"held": True, "free": False}.get(state), said
