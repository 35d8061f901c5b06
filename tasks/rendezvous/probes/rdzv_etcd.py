"""Reads etcd: health, version, alarms, sizes, disk latency, and every key of torch's two backends. Changes nothing.

Argument: endpoint, tls, auth {ca, cert, key}, prefix (backend etcd), keys_only (skip health),
health_only (skip keys). Answer: raw bodies by name, and the path of the v3 gateway.
"""

import base64
import json
import re
import sys
from typing import Any

from tasks.rendezvous.probes.rdzv_http import BadAccess, call, gateway, key_url, opener, v3_client

ROOTS = ("/torch/elastic/", "/torchelastic/")
TREES = {"dynamic": "/torch/elastic/rendezvous", "store": "/torch/elastic/store"}


def fsync(text: str) -> "dict[str, float]":
    """Cumulative counts of the write-ahead log's fsync histogram, by upper bound."""
    rows = re.findall(r'^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\S+)$', text, re.M)
    return {le: float(n) for le, n in rows}


def counting(root: str) -> "dict[str, Any]":
    """A v3 request that counts the keys below `root` and returns none."""
    ends = (root, root[:-1] + chr(ord(root[-1]) + 1))
    key, range_end = (base64.b64encode(e.encode()).decode() for e in ends)
    return {"key": key, "range_end": range_end, "count_only": True}


def about(ask: "dict[str, Any]", client: "Any", base: str) -> "dict[str, Any]":
    """Health, version, and where it is healthy enough to answer them: alarms, size, disk latency."""
    answer: "dict[str, Any]" = {"health": call(client, "GET", base + "/health")}
    if "error" not in answer["health"]:
        answer["version"] = call(client, "GET", base + "/version")
        answer["gateway"] = gateway(answer["version"])
        at = base + answer["gateway"]
        v3 = v3_client(ask, at)
        answer["alarms"] = call(v3, "POST", at + "/maintenance/alarm", body={"action": "GET"})
        answer["status"] = call(v3, "POST", at + "/maintenance/status", body={})
        answer["v3_keys"] = [call(v3, "POST", at + "/kv/range", body=counting(root)) for root in ROOTS]
        answer["fsync"] = fsync(call(client, "GET", base + "/metrics").get("body", ""))
    return answer


def main() -> None:
    """Answer on standard output."""
    ask, base, answer = json.loads(sys.argv[1]), "", {}  # type: Any, str, dict[str, Any]
    try:
        client, base = opener(ask), ask["endpoint"].rstrip("/")
        if not ask.get("keys_only"):
            answer.update(about(ask, client, base))
        silent = ask.get("health_only") or "error" in answer.get("health", {})
        for name, key in {} if silent else dict(TREES, legacy=ask["prefix"]).items():
            answer[name] = call(client, "GET", key_url(base, key, recursive="true", quorum="true"))
            if "error" in answer[name]:
                break
    except BadAccess as e:
        answer = {k: {"error": "access", "what": str(e)} for k in ("health", *TREES, "legacy")}
    print(json.dumps(answer))


main()
