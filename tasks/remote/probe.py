"""Runs a probe, by its name, on a node. Program and data arrive on stdin: no argument grows with the world, and none of
it shows in a process list."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runbooks.core.reading import Source, Unknown, UnknownReason
from tasks.context import Context
from tasks.remote.program import program
from tasks.transport.base import CommandResult, Host, TransportError
from tasks.transport.local import LocalHost

MARK = "gpu-runbooks-probe"
BOOT = (  # $2 the probe's name, for people who look at a process list; $3 bytes that must have arrived
    "import sys;t=sys.stdin.buffer.read();len(t)==int(sys.argv[3])or sys.exit('the program came cut off');"
    "p,*d=t.decode().split(chr(0));sys.argv=['-']+d;exec(compile(p,'probe','exec'))"
)


def run_probe(
    host: Host, name: str, data: Mapping[str, Any], *, timeout_s: float = 30.0, env: Mapping[str, str] | None = None,
    python: str = "python3", limit_bytes: int = 8 << 20,
) -> dict[str, Any]:  # fmt: skip
    """The probe's answer. Raises TransportError: whatever the host raises, failed (it ended badly), unparsable."""
    return run_program(
        host, name, program(name), data, timeout_s=timeout_s, env=env, python=python, limit_bytes=limit_bytes
    )


def run_program(
    host: Host, name: str, text: str, data: Mapping[str, Any], *, timeout_s: float,
    env: Mapping[str, str] | None = None, python: str = "python3", limit_bytes: int = 8 << 20, more: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """The same for the text of a program. It finds `data` as JSON in `sys.argv[1]`, and `more` behind it.

    The mark stands in its arguments: it keeps probes from being taken for jobs whose pattern they were given."""
    if isinstance(host, LocalHost):
        host.let_see(_variables(data))
    sent = "\0".join((text, json.dumps(data, separators=(",", ":")), *more))
    argv: tuple[str, ...] = (python, "-c", BOOT, MARK, name, str(len(sent.encode())))
    if env:
        argv = ("env", *(f"{k}={v}" for k, v in env.items()), *argv)
    try:
        done = host.run(argv, stdin=sent, timeout_s=timeout_s, limit_bytes=limit_bytes)
    except TransportError as e:
        e.shown_as(f"{MARK} {name}")
        raise
    if done.exit != 0:
        why = {126: UnknownReason.DENIED, 127: UnknownReason.TOOL_MISSING}.get(done.exit, UnknownReason.FAILED)
        raise TransportError(why, f"exit {done.exit}: {last_line(done.err) or last_line(done.out)}", f"{MARK} {name}")
    return _answer(done, f"{MARK} {name}")


def _variables(data: Any) -> list[str]:
    """Names of variables that a probe is told to read, such as `password_env`."""
    if isinstance(data, Mapping):
        named = [v for k, v in data.items() if str(k).endswith("_env") and isinstance(v, str)]
        return named + [name for v in data.values() for name in _variables(v)]
    return [name for v in data for name in _variables(v)] if isinstance(data, list | tuple) else []


def _answer(done: CommandResult, command: str) -> dict[str, Any]:
    try:
        found = json.loads(done.out)
    except (ValueError, RecursionError) as e:
        cut = "output was cut" if done.truncated else f"not JSON: {e}"
        raise TransportError(UnknownReason.UNPARSABLE, f"{cut}: {done.out[:200]!r}", command) from e
    if not isinstance(found, dict):
        raise TransportError(UnknownReason.UNPARSABLE, f"expected an object, found {type(found).__name__}", command)
    return found


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def source(context: Context, command: str, excerpt: str = "") -> Source:
    """Where a reading on the context's node came from."""
    return Source(command=command, host=context.node.name, taken_at=context.now(), excerpt=excerpt[:2000])


def unknown(context: Context, error: TransportError, command: str) -> Unknown:
    """A failed command as a reading that says why."""
    return Unknown(reason=error.reason, detail=error.detail, source=source(context, command))


def redact(context: Context, text: str) -> str:
    """`text` without secrets, with the run's key."""
    return context.redactor.text(text)
