"""Reads etcd: health, version, alarms, sizes, disk latency, and every key of torch's two backends. Changes nothing.

Argument: endpoint, tls {ca, cert, key}, prefix (backend etcd), keys_only (skip health). Answer: raw bodies by name.
"""

import json
import re
import sys
from typing import Any

from tasks.probes.rdzv_http import call, key_url, opener

TREES = {"dynamic": "/torch/elastic/rendezvous", "store": "/torch/elastic/store"}


def fsync(text: str) -> "dict[str, float]":
    """Cumulative counts of the write-ahead log's fsync histogram, by upper bound."""
    rows = re.findall(r'^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\S+)$', text, re.M)
    return {le: float(n) for le, n in rows}


def main() -> None:
    """Answer on standard output."""
    ask = json.loads(sys.argv[1])
    client, base = opener(ask.get("tls") or {}), ask["endpoint"].rstrip("/")
    answer: "dict[str, Any]" = {}
    if not ask.get("keys_only"):
        answer["health"] = call(client, "GET", base + "/health")
        if "error" not in answer["health"]:
            answer["version"] = call(client, "GET", base + "/version")
            answer["alarms"] = call(client, "POST", base + "/v3/maintenance/alarm", body={"action": "GET"})
            answer["status"] = call(client, "POST", base + "/v3/maintenance/status", body={})
            answer["fsync"] = fsync(call(client, "GET", base + "/metrics").get("body", ""))
    trees = dict(TREES, legacy=ask["prefix"])
    for name, key in trees.items():
        answer[name] = call(client, "GET", key_url(base, key, recursive="true", quorum="true"))
        if "error" in answer[name]:
            break
    print(json.dumps(answer))


main()
