"""Waits on a Ray head's node until a watched worker comes or goes. JSON in, JSON out. Changes nothing.

Argument: dashboard, ips, known ({ip: id of its living node, "" none}, null: nothing known yet), wait_s, every_s.
"""

import json
import sys
import time
import urllib.request
from typing import Any


def living(dashboard: str, ips: "list[str]") -> "dict[str, Any]":
    """Per address the newest node that the head calls alive: {"id", "started_ms"}."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(dashboard + "/api/v0/nodes?detail=1&limit=10000", timeout=8) as answer:
        rows = json.loads(answer.read().decode("utf-8", "replace"))["data"]["result"]["result"]
    found: "dict[str, Any]" = {ip: {"id": "", "started_ms": 0} for ip in ips}
    for row in rows:
        ip, began = row.get("node_ip"), row.get("start_time_ms") or 0
        if ip in found and row.get("state") == "ALIVE" and began >= found[ip]["started_ms"]:
            found[ip] = {"id": row["node_id"], "started_ms": began}
    return found


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Waits, then says what is."""
    end = time.time() + ask["wait_s"]
    while True:
        try:
            nodes, problem = living(ask["dashboard"], ask["ips"]), ""
        except (OSError, ValueError, KeyError, TypeError) as e:
            nodes, problem = {}, "%s: %s" % (type(e).__name__, e)
        now = {"nodes": {ip: n["id"] for ip, n in nodes.items()}, "problem": bool(problem)}
        if now != ask["known"] or time.time() >= end:
            return {"nodes": nodes, "problem": problem, "at": time.time()}
        time.sleep(ask["every_s"])


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
