"""In the pod: processes whose command line matches, the boot id, and the pod's own id. Changes nothing."""

import glob
import os
import re
from typing import Any, Dict, List


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return ""


def pod_id() -> str:
    """RUNPOD_POD_ID of the first process, else of this one."""
    try:
        with open("/proc/1/environ", "rb") as f:
            for item in f.read().split(b"\0"):
                if item.startswith(b"RUNPOD_POD_ID="):
                    return item.partition(b"=")[2].decode("ascii", "replace")
    except OSError:
        pass
    return os.environ.get("RUNPOD_POD_ID", "")


def matching(pattern: str) -> List[Dict[str, Any]]:
    wanted, found = re.compile(pattern), []
    with open("/proc/uptime") as f:
        up = float(f.read().split()[0])
    tick = os.sysconf("SC_CLK_TCK")
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            with open(path + "/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if not words or fields[0] == "Z" or "gpu-runbooks-probe" in words or not wanted.search(words):
            continue
        ticks = int(fields[19])
        item = {"pid": int(path[6:]), "start_ticks": ticks, "age_s": up - ticks / tick, "command": words[:200]}
        found.append(item)
    return sorted(found, key=lambda p: p["pid"])
