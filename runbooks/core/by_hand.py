"""Commands that a person types instead of a step. Each is a line for a POSIX shell that repairs what the step repairs, and
touches nothing where the thing is not the one that was judged. Held by tests that run them as printed."""

import shlex
from collections.abc import Iterable


def signalled(pid: int, start_ticks: int, signal: str) -> str:
    """A signal to the process of that start time (field 22 of its stat), to no other that has its number by now."""
    started = f"\"$(sed 's/.*) //' /proc/{pid}/stat | cut -d' ' -f20)\""
    return f"[ {started} = {start_ticks} ] && kill -{signal} {pid}"


def while_booted(boot_id: str, then: str) -> str:
    """`then`, where the machine was not booted again since it was read."""
    return f'[ "$(cat /proc/sys/kernel/random/boot_id)" = {shlex.quote(boot_id)} ] && {then}'


def detached(argv: Iterable[str], out: str = "") -> str:
    """A program started so that it stays when the terminal goes. `out`: the file to which it writes on."""
    where = f">>{shlex.quote(out)}" if out else ">/dev/null"
    return f"setsid -f {shlex.join(argv)} </dev/null {where} 2>&1"


def if_text(path: str, text: str, then: str) -> str:
    """`then`, where the file still holds exactly that text (but for a final newline)."""
    return f'[ "$(cat {shlex.quote(path)})" = {shlex.quote(text)} ] && {then}'
