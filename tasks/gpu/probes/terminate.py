"""Ends listed processes on the node, by pidfd, after checking that each is still the one that was judged.

JSON argument: boot_id, processes [{pid, start_ticks, command, uid}], cgroup, sid, grace_s, on_these (PIDs that the
driver lists on the plan's GPUs now), on_others (on other GPUs). Answer: {"refused": why} with nothing changed, or
{"ended": [...]}.
"""

import json
import os
import re
import signal
import sys
import time
from typing import Any

from tasks.remote.probes.judged import judged, same_list, same_owner
from tasks.remote.probes.pidfd import ended, send
from tasks.remote.probes.proc import ancestors, cgroup, container, nvidia_fds, pids, stat
from tasks.remote.probes.refused import Refused, refusal

WANTS = {"boot_id": "str", "processes": "list", "cgroup": "str", "sid": "int", "grace_s": "number", "on_these": "list", "on_others": "list"}
KILL_WAIT_S = 10.0  # a process that a KILL has not ended by then waits in the kernel


def check_one(want: "dict[str, Any]", ask: "dict[str, Any]", protected: "set[int]") -> "dict[str, Any]":
    """The process, held by a pidfd, or what became of it. Raises Refused when it is not the one that was judged."""
    pid = int(want["pid"])
    fd, now = judged(want, protected)
    if now is None:
        return {"pid": pid, "fd": None, "outcome": "gone before"}
    if fd is None:
        return {"pid": pid, "fd": None, "outcome": "ended before (Z): its parent %d has not reaped it" % now["ppid"]}
    near = now["sid"] == ask["sid"] or (ask["cgroup"] not in ("", "/") and cgroup(pid) == ask["cgroup"])
    if not near:
        raise Refused("target-changed", "pid %d left session %s and cgroup %r" % (pid, ask["sid"], ask["cgroup"]))
    return {"pid": pid, "fd": fd, "outcome": "", "state": now["state"], "start_ticks": now["start_ticks"], "want": want}


def one_job(path: str) -> bool:
    """Whether a cgroup holds one piece of work (container, service, batch job), not all that a login ever started."""
    return bool(container(path) or re.search(r"kubepods|\.service|/job_\d+", path)) and "sshd" not in path


def outsiders(ask: "dict[str, Any]", listed: "set[int]") -> "list[str]":
    """Processes outside the list that belong to it: children, and members of session or job cgroup on the same GPUs."""
    found, box = [], ask["cgroup"] if one_job(ask["cgroup"]) else ""
    for pid in pids():
        now = stat(pid)
        if now is None or pid in listed or now["state"] in "ZX" or pid == os.getpid():
            continue
        shares = now["sid"] == ask["sid"] or (box and cgroup(pid) == box)
        by_fd = bool(nvidia_fds(pid)) and pid not in ask["on_others"] and now["sid"] == ask["sid"]
        if now["ppid"] in listed:
            found.append("pid %d (%s) is a child of pid %d" % (pid, now["comm"], now["ppid"]))
        elif shares and (pid in ask["on_these"] or by_fd):
            found.append("pid %d (%s) of the same session or cgroup is on these GPUs" % (pid, now["comm"]))
    return found


def check(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Everything that must hold before the first signal."""
    same_list(ask)
    protected = ancestors()
    held = [check_one(p, ask, protected) for p in ask["processes"]]
    more = outsiders(ask, {int(p["pid"]) for p in ask["processes"]})
    if more and any(h["fd"] is not None for h in held):
        raise Refused("not-ours", "not in the plan: " + "; ".join(more[:10]))
    for h in [h for h in held if h["fd"] is not None and not ended(h["fd"])]:  # the look through the machine took its time
        now = stat(h["pid"])
        if now is not None:
            same_owner(h["pid"], now, h["want"])
    return held


def finish(held: "list[dict[str, Any]]", grace_s: float) -> None:
    """TERM to all, the grace time, KILL to what is left; each gets its outcome."""
    began = time.monotonic()
    live = [h for h in held if h["fd"] is not None]
    for h in live:
        send(h["fd"], signal.SIGTERM)
    while any(not h["outcome"] for h in live) and time.monotonic() < began + grace_s:
        note(live, "ended by TERM", began, 0.05)
        left = [h for h in live if not h["outcome"]]
        if time.monotonic() > began + 0.5 and left and all(stopped(h) for h in left):
            break  # a stopped process keeps TERM pending for ever (recorded): waiting would change nothing
    for h in live:
        if not h["outcome"]:
            h["kept_pending"] = stopped(h)
            send(h["fd"], signal.SIGKILL)
    until = time.monotonic() + KILL_WAIT_S
    while any(not h["outcome"] for h in live) and time.monotonic() < until:
        note(live, "ended by KILL", began, 0.05)
    for h in live:
        if not h["outcome"]:
            now = stat(h["pid"])
            h["outcome"] = "survives KILL" + (" in state %s" % now["state"] if now else "")


def stopped(h: "dict[str, Any]") -> bool:
    """Whether it is stopped or traced."""
    now = stat(h["pid"])
    return now is not None and now["state"] in "Tt"


def note(live: "list[dict[str, Any]]", word: str, began: float, wait_s: float) -> None:
    """Give those that ended meanwhile their outcome."""
    for h in live:
        if not h["outcome"] and ended(h["fd"], wait_s):
            h["outcome"], h["seconds"] = word, round(time.monotonic() - began, 2)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Check, then end; refuse before the first signal or not at all."""
    try:
        held = check(ask)
    except Refused as e:
        return refusal(e)
    finish(held, float(ask["grace_s"]))
    after = outsiders(ask, {int(p["pid"]) for p in ask["processes"]})
    said = [{k: h.get(k) for k in ("pid", "outcome", "seconds", "state", "kept_pending")} for h in held]
    return {"ended": said, "appeared": after}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
