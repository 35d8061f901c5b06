"""In the pod: worker processes, the worker's log, disks, GPUs, driver. Changes nothing.

Argument: {match, log, disks, lines}."""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, List

from tasks.spawning.probes.pod_processes import boot_id, matching, pod_id


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
    answer = {
        "boot_id": boot_id(),
        "pod_id": pod_id(),
        "processes": matching(ask["match"]),
        "log": tail(ask["log"], ask["lines"]),
    }
    answer["free"] = free(ask["disks"])
    answer["image_cuda"] = os.environ.get("CUDA_VERSION", "")
    answer.update(smi())
    print(json.dumps(answer))
