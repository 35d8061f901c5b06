"""Reads whether a node can be entered, and what a log-in finds there: rights, Python, programs, clock, quarantine. One command."""

import re
import shlex
from collections.abc import Sequence
from time import time

from runbooks.core.node_basics import QUARANTINE, NodeBasics
from runbooks.core.node_tools import NodePart, Wanted
from runbooks.core.reading import Unknown, UnknownReason
from tasks.installation import installation_redactor
from tasks.transport.base import Host, TransportError

ASKED = "python3 -c 'import sys; print(sys.version_info[0], sys.version_info[1])' 2>/dev/null || echo none; id -u; date +%s"
MISSING = "for t in {}; do command -v \"$t\" >/dev/null 2>&1 || printf '%s\\t' \"$t\"; done"
HAS = {  # what the node is made of, where a program is of use only with it
    NodePart.NVIDIA: "grep -qs 'v000010DE.*bc03' /sys/bus/pci/devices/*/modalias",
    NodePart.DISKS: "ls -d /sys/block/sd*/device /sys/block/nvme*/device /sys/block/hd*/device 2>/dev/null | grep -q .",
}
ANSWER = re.compile(r"((?:none|\d+ \d+)\n\d+\n\d+)\n([^\n]*)\n([a-z ]*)\n(.*)", re.DOTALL)
READ_MARK = "head -c 4096 {} 2>/dev/null || true"


def read_basics(host: Host, tools: Sequence[Wanted] = ()) -> NodeBasics:
    """One look for these programs too, at most 15 s beyond the log-in. Never raises: a node that does not answer is an answer."""
    clean = installation_redactor().text
    try:
        before = time()
        done = host.run(("sh", "-c", _script(tools)), timeout_s=15)
        after = time()
    except TransportError as e:
        return NodeBasics(node=host.name, blind=Unknown(reason=e.reason, detail=clean(e.detail)))
    answer = ANSWER.fullmatch(done.out)
    if done.exit != 0 or answer is None:
        odd = f"a simple command gives unexpected output: {done.out[:80]!r} {done.err[:80]!r}"
        return NodeBasics(node=host.name, blind=Unknown(reason=UnknownReason.UNPARSABLE, detail=clean(odd)))
    look = parsed(host.name, answer[1].split(), before, after, clean(answer[4] or ""))
    return look.model_copy(update={"lacks": lacking(tools, answer[2].split("\t"), answer[3].split())})


def _script(tools: Sequence[Wanted]) -> str:
    names = dict.fromkeys(n for t in tools for n in (t.program, t.instead) if n)
    missing = MISSING.format(" ".join(map(shlex.quote, names))) if names else ":"
    has = "; ".join(f"if {test}; then printf '{part} '; fi" for part, test in HAS.items())
    return "; ".join((ASKED, missing, "echo", has, "echo", READ_MARK.format(shlex.quote(QUARANTINE))))


def lacking(tools: Sequence[Wanted], missing: Sequence[str], has: Sequence[str]) -> tuple[Wanted, ...]:
    """Those of the programs that are missing, and would be of use on a node that has these parts."""
    of_use = [t for t in tools if t.of not in HAS or t.of in has]
    return tuple(t for t in of_use if t.program in missing and (not t.instead or t.instead in missing))


def parsed(node: str, words: list[str], before: float, after: float, mark: str = "") -> NodeBasics:
    """`words`: Python's version or none, uid, seconds since 1970; `before` and `after`: our clock around the command."""
    *python, uid, at = words
    late = max(0.0, before - 1 - int(at), int(at) - after - 1)  # `date` cuts off part of a second
    version = tuple(int(n) for n in python) if python != ["none"] else ()
    return NodeBasics(node=node, python=version, uid=int(uid), off_s=late, mark=mark)
