"""Says which of the listed (pid, start) pairs still live, and which processes match the job patterns."""

import json
import sys
from typing import Any

from tasks.remote.probes.proc import boot_id, matching, same


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Reads only. After another boot every process of the old one is gone."""
    now = boot_id()
    live = []
    for one in ask["gone"] if now == ask["boot_id"] else []:
        found = same(int(one["pid"]), int(one["start_ticks"]))
        if found is not None and found["state"] not in "ZX":
            live.append({"pid": found["pid"], "state": found["state"]})
    running = [p for pattern in ask["matches"] for p in matching(pattern)]
    return {"boot_id": now, "live": live, "running": [{"pid": p["pid"], "command": p["command"]} for p in running[:20]]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
