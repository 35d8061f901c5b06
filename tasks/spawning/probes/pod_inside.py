"""In the pod: worker processes, what else its start began and whether it moves, the worker's log, disks, GPUs, driver.
Changes nothing.

Argument: {match, log, disks, lines, watch_s}."""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from tasks.remote.probes.moved import moved
from tasks.remote.probes.proc import boot_id
from tasks.spawning.probes.pod_processes import all_below, matching, pod_id


def at_work(before: "Optional[Dict[int, Dict[str, Any]]]", began: float, watch_s: float) -> "Optional[List[Dict[str, Any]]]":
    """What was there at the first look or is new, and how far it moved since."""
    if before is None:
        return None
    time.sleep(max(0.0, watch_s - (time.monotonic() - began)))
    found = []
    for _, now in sorted((all_below() or {}).items()):
        cpu_s, io = moved(now, before)
        shown = {"pid": now["pid"], "command": now["words"][:200], "age_s": now["age_s"], "first": now["first"]}
        found.append(dict(shown, cpu_s=cpu_s, io_bytes=io or 0))
    return sorted(found, key=lambda p: (-p["io_bytes"], -p["cpu_s"], p["age_s"]))[:100]


def smi() -> Dict[str, Any]:
    """GPU count and the most CUDA that the driver allows; None where there is no nvidia-smi."""
    try:
        done = subprocess.run(["nvidia-smi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=15)
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=15)
    except (OSError, subprocess.TimeoutExpired):
        return {"gpus": None, "driver_cuda": ""}
    text = done.stdout.decode("utf-8", "replace")
    cuda = re.search(r"CUDA Version: ([\d.]+)", text)
    names = [x for x in listed.stdout.decode("utf-8", "replace").splitlines() if x.startswith("GPU ")]
    return {"gpus": len(names), "driver_cuda": cuda.group(1) if cuda else ""}


def tail(path: str, lines: int) -> Dict[str, Any]:
    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            f.seek(max(0, size - 262144))
            text = f.read().decode("utf-8", "replace")
        whole = text.splitlines()[1 if size > 262144 else 0 :]  # half a secret is not known for one
        return {"exists": True, "lines": whole[-lines:], "age_s": time.time() - os.path.getmtime(path)}
    except OSError:
        return {"exists": False, "lines": [], "age_s": None}


def free(paths: List[str]) -> Dict[str, int]:
    out = {}  # type: Dict[str, int]
    for path in paths:
        try:
            s = os.statvfs(path)
            out[path] = s.f_bavail * s.f_frsize
        except OSError:
            continue
    return out


if __name__ == "__main__":
    ask = json.loads(sys.argv[1])
    workers = matching(ask["match"])
    began = time.monotonic()
    first = None if workers else all_below()
    answer = {  # type: Dict[str, Any]
        "boot_id": boot_id(),
        "pod_id": pod_id(),
        "processes": workers,
        "log": tail(ask["log"], ask["lines"]),
    }
    answer["free"] = free(ask["disks"])
    answer["image_cuda"] = os.environ.get("CUDA_VERSION", "")
    answer.update(smi())
    answer["others"] = at_work(first, began, ask["watch_s"])
    answer["watched_s"] = time.monotonic() - began
    print(json.dumps(answer))
