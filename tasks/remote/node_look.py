"""Reads whether a node can be entered, and what a log-in finds there: rights, Python, clock, quarantine. One log-in, one command."""

import re
import shlex
from time import time

from runbooks.core.node_look import QUARANTINE, NodeLook
from runbooks.core.reading import Unknown, UnknownReason
from tasks.installation import installation_redactor
from tasks.transport.base import Host, TransportError

ASKED = "python3 -c 'import sys; print(sys.version_info[0], sys.version_info[1])' 2>/dev/null || echo none; id -u; date +%s"
ANSWER = re.compile(r"((?:none|\d+ \d+)\n\d+\n\d+)\n(.*)", re.DOTALL)
READ_MARK = "head -c 4096 {} 2>/dev/null || true"


def look_at_node(host: Host) -> NodeLook:
    """One look, at most 15 s beyond the log-in. Never raises: a node that does not answer is an answer."""
    clean = installation_redactor().text
    try:
        before = time()
        done = host.run(("sh", "-c", f"{ASKED}; {READ_MARK.format(shlex.quote(QUARANTINE))}"), timeout_s=15)
        after = time()
    except TransportError as e:
        return NodeLook(node=host.name, blind=Unknown(reason=e.reason, detail=clean(e.detail)))
    answer = ANSWER.fullmatch(done.out)
    if done.exit != 0 or answer is None:
        odd = f"a simple command gives unexpected output: {done.out[:80]!r} {done.err[:80]!r}"
        return NodeLook(node=host.name, blind=Unknown(reason=UnknownReason.UNPARSABLE, detail=clean(odd)))
    return parsed(host.name, answer[1].split(), before, after, clean(answer[2] or ""))


def parsed(node: str, words: list[str], before: float, after: float, mark: str = "") -> NodeLook:
    """`words`: Python's version or none, uid, seconds since 1970; `before` and `after`: our clock around the command."""
    *python, uid, at = words
    late = max(0.0, before - 1 - int(at), int(at) - after - 1)  # `date` cuts off part of a second
    version = tuple(int(n) for n in python) if python != ["none"] else ()
    return NodeLook(node=node, python=version, uid=int(uid), off_s=late, mark=mark)
