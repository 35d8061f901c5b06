"""`doctor --fleet`: can each node of the fleet be entered and read, and is it quarantined? One log-in and one command per node."""

import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import time

from deployments.doctor.check import Check
from runbooks.core.fleet import Fleet, Node
from runbooks.core.reading import Why
from runbooks.gpu.plans import MARK
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool

AT_ONCE = 16
OLDEST = (3, 6)  # of Python on a node: what the probes are written for
LATE_S = 60.0  # two clocks that are further apart make logs of two machines hard to lay side by side
ASKED = "python3 -c 'import sys; print(sys.version_info[0], sys.version_info[1])' 2>/dev/null || echo none; id -u; date +%s"
ANSWER = re.compile(r"((?:none|\d+ \d+)\n\d+\n\d+)\n(.*)", re.DOTALL)
READ_MARK = "head -c 4096 {} 2>/dev/null || true"  # zombie-gpu's plan “quarantine the node” writes it
STAGES = {
    Why.DENIED: "gpu-runbooks run ssh-auth-failure {} names the stage at which the log-in stops",
    Why.UNREACHABLE: "gpu-runbooks run ssh-auth-failure {} names the stage at which the connection stops",
}


def check_nodes(fleet: Fleet) -> Iterator[Check]:
    """One check per node, in the order of the file: entered or not, rights, Python, clock."""
    with HostPool() as hosts, ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        yield from pool.map(lambda node: _one(hosts, node), fleet.nodes)


def _one(hosts: HostPool, node: Node) -> Check:
    name = f"node {node.name}"
    try:
        before = time()
        done = hosts(node).run(("sh", "-c", f"{ASKED}; {READ_MARK.format(shlex.quote(MARK))}"), timeout_s=15)
        after = time()
    except TransportError as e:
        fix = STAGES.get(e.reason, "log in by hand and see why a plain command does not end").format(node.name)
        return Check(name, "FAULT", f"{e.reason}: {e.detail}", fix)
    answer = ANSWER.fullmatch(done.out)
    if done.exit != 0 or answer is None:
        return Check(name, "FAULT", f"a plain command answers oddly: {done.out[:80]!r} {done.err[:80]!r}", "see its shell's start files")
    return _judged(name, answer[1].split(), before, after, answer[2] or "")


def _judged(name: str, words: list[str], before: float, after: float, mark: str = "") -> Check:
    """What a node that was entered lacks, worst first; `words`: Python's version or none, uid, seconds since 1970."""
    *python, uid, at = words
    late = max(0.0, before - 1 - int(at), int(at) - after - 1)  # `date` cuts off part of a second
    version = tuple(int(n) for n in python) if python != ["none"] else ()
    if version < OLDEST:
        has = f"Python {'.'.join(python)}" if version else "no Python 3"
        return Check(name, "FAULT", f"entered; {has}: most readings need {'.'.join(map(str, OLDEST))}", "install python3 there")
    notes = [] if uid == "0" else [f"as uid {uid}: other users' processes, kernel log and most repairs may be denied"]
    if late > LATE_S:
        notes.append(f"its clock is {late:.0f} s off ours")
    notes += [_quarantined(mark)] if mark.strip() else []
    says = f"entered; Python {'.'.join(python)}{'; root' if uid == '0' else ''}"
    release = f"once it is repaired, release it: rm {shlex.quote(MARK)}" if mark.strip() else ""
    return Check(name, "note" if notes else "ok", "; ".join((says, *notes)), release)


def _quarantined(mark: str) -> str:
    """What the mark says; one that is not ours, or is cut off, is a mark all the same."""
    try:
        found = json.loads(mark)
    except ValueError:
        found = None
    said = {k: str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    since = f" since {said['at']}" if "at" in said else ""
    return f"quarantined{since} by {said.get('by', 'somebody')}: {said.get('reason', 'its mark does not say why')}"
