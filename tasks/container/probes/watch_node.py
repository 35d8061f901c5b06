"""Waits on a node until a watched container changes, and samples memory, disk and CPU meanwhile. JSON in, JSON out.

Argument: socket, containers ({name: pattern of the application, "" none}), known ({name: state as last answered}, null:
nothing known yet), since (Unix time of the last event seen), wait_s, sample_s, disks. Ends at once when the present
state differs from `known`, so that nothing that happened between two calls is missed. Changes nothing.
"""

import http.client
import json
import os
import queue
import re
import socket
import sys
import threading
import time
from typing import Any
from urllib.parse import quote

from tasks.container.probes.engine_api import Api, EngineError

WANTED = ("create", "start", "die", "oom", "destroy", "rename", "pause", "unpause", "health_status")
LIMIT_S, SAMPLE_LIMIT_S = 20.0, 5.0  # for all containers of one look, of one sample: an engine that crawls
LOOK_S = 2.0  # engines whose event stream is silent (Podman's, some proxies) are asked this often
DOWN_S = 0.5  # between two tries of an engine that does not answer


def events(path: str, since: float, out: "queue.Queue[Any]") -> None:
    """Puts container events into `out`, and None when the stream ends. In a thread of its own."""
    try:
        link = http.client.HTTPConnection("engine")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        link.sock = sock
        wanted = quote(json.dumps({"type": ["container"], "event": list(WANTED)}))
        link.request("GET", "/events?since=%.9f&filters=%s" % (since, wanted))
        answer = link.getresponse()
        while answer.status == 200:
            line = answer.readline()
            if not line:
                break
            out.put(json.loads(line))
    except (OSError, ValueError, http.client.HTTPException):
        pass
    out.put(None)


def left(end: float, most: float) -> float:
    """Seconds that a call may take. Raises TimeoutError when none are left."""
    if end - time.monotonic() < 0.1:
        raise TimeoutError("the engine is too slow for a look at every container")
    return min(most, end - time.monotonic())


def state_of(api: Api, name: str, pattern: str, end: float) -> "dict[str, Any]":
    """What is compared from one look to the next."""
    found = api.inspect(name, timeout=left(end, 8))
    if found is None:
        return {"id": "", "status": "missing", "started": "", "finished": "", "exit": 0, "oom": False, "health": "", "app": None}
    s = found["State"]
    return {
        "id": found["Id"], "status": s["Status"], "started": s["StartedAt"], "finished": s["FinishedAt"],
        "exit": s["ExitCode"], "oom": s.get("OOMKilled", False), "health": (s.get("Health") or {}).get("Status", ""),
        "app": application(api, found["Id"], pattern, end) if pattern and s["Status"] == "running" else None,
    }  # fmt: skip


def application(api: Api, ident: str, pattern: str, end: float) -> "bool | None":
    """Whether a process inside matches; None when the engine cannot say.

    -ww: whole command lines, whatever width the daemon's environment names in COLUMNS.
    """
    try:
        rows = api.call("GET", "/containers/%s/top?ps_args=-ww%%20-eo%%20pid,args" % ident, timeout=left(end, 5))["Processes"] or []
    except (EngineError, OSError, KeyError, TypeError, ValueError):
        return None
    return any(re.search(pattern, row[-1]) for row in rows)


def usage(api: Api, ident: str, end: float) -> "dict[str, Any] | None":
    """Memory in use without cache, its limit, CPU seconds so far."""
    try:
        s = api.call("GET", "/containers/%s/stats?stream=false&one-shot=true" % ident, timeout=left(end, 3))
        memory = s.get("memory_stats") or {}
        more = memory.get("stats") or {}
        cache = more.get("total_inactive_file", more.get("inactive_file", 0))
        cpu = (s.get("cpu_stats") or {}).get("cpu_usage") or {}
        return {"mem": max(0, memory.get("usage", 0) - cache), "limit": memory.get("limit", 0),
                "cpu_s": round(cpu.get("total_usage", 0) / 1e9, 2)}  # fmt: skip
    except (EngineError, OSError, ValueError, TypeError):
        return None


def sample(api: Api, states: "dict[str, Any]", disks: "list[str]") -> "dict[str, Any]":
    """One reading of the machine and of the watched containers."""
    end = time.monotonic() + SAMPLE_LIMIT_S
    with open("/proc/meminfo") as f:
        memory = dict(line.split(":", 1) for line in f)
    free = {}
    for path in disks:
        try:
            v = os.statvfs(path)
            free[path] = v.f_bavail * v.f_frsize
        except OSError:
            continue
    return {
        "at": time.time(), "mem_total": int(memory["MemTotal"].split()[0]) * 1024,
        "mem_available": int(memory.get("MemAvailable", "0").split()[0]) * 1024,
        "load": os.getloadavg()[0], "disk_free": free,
        "containers": {n: usage(api, s["id"], end) for n, s in states.items() if s["status"] == "running"},
    }  # fmt: skip


def look(api: Api, ask: "dict[str, Any]") -> "tuple[dict[str, Any], str]":
    """Every watched container now, or why the engine does not answer."""
    end = time.monotonic() + LIMIT_S
    try:
        return {n: state_of(api, n, p, end) for n, p in ask["containers"].items()}, ""
    except (EngineError, OSError, ValueError, KeyError, TypeError) as e:
        return {}, "%s: %s" % (type(e).__name__, e)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Waits, then says what is."""
    api, came = Api(ask["socket"]), queue.Queue()  # type: tuple[Api, queue.Queue[Any]]
    end, seen, samples, listening = time.time() + ask["wait_s"], ask["since"], [], False
    next_sample = 0.0
    while True:
        states, problem = look(api, ask)
        now = time.time()
        if not problem and not listening:
            threading.Thread(target=events, args=(ask["socket"], seen, came), daemon=True).start()
            listening = True
        if not problem and now >= next_sample:
            samples.append(sample(api, states, ask["disks"]))
            next_sample = now + ask["sample_s"]
        if {"states": states, "problem": bool(problem)} != ask["known"] or now >= end:
            return {"states": states, "problem": problem, "samples": samples, "since": seen, "at": now}
        wait = DOWN_S if problem else min(LOOK_S, max(0.05, next_sample - now))
        try:
            event = came.get(timeout=min(wait, max(0.05, end - now)))
            if event is None:
                listening = False
            else:
                seen = max(seen, event.get("timeNano", 0) / 1e9)
        except queue.Empty:
            pass


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)  # the listening thread has nothing to close
