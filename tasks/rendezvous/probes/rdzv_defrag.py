"""Compacts etcd's old v3 revisions, defragments its file and switches the NOSPACE alarm off. Keys are not touched.

Argument: endpoint, tls, auth. Answer: said (lines), stopped (text or null).
"""

import json
import sys
from typing import Any

from tasks.rendezvous.probes.rdzv_http import call, gateway, opener, v3_client

WANTS = {"endpoint": "str", "tls": "dict", "auth": "dict?"}


def post(client: "Any", base: str, path: str, body: "dict[str, Any]") -> "dict[str, Any]":
    """A v3 gateway call that must succeed."""
    answer = call(client, "POST", base + path, body=body)
    if answer.get("status") != 200 and "compacted" not in answer.get("body", ""):
        raise OSError("%s: %s" % (path, answer.get("what") or answer.get("body", "")[:200]))
    found = json.loads(answer["body"])
    return found if isinstance(found, dict) else {}


def main() -> None:
    """Answer on standard output."""
    ask = json.loads(sys.argv[1])
    base = ask["endpoint"].rstrip("/")
    base += gateway(call(opener(ask), "GET", base + "/version"))
    client = v3_client(ask, base)
    said, stopped = [], None  # type: list[str], Any
    try:
        before = post(client, base, "/maintenance/status", {})
        alarms = post(client, base, "/maintenance/alarm", {"action": "GET"}).get("alarms", [])
        revision = before["header"]["revision"]
        post(client, base, "/kv/compaction", {"revision": revision, "physical": True})
        said.append("compacted to revision %s" % revision)
        post(client, base, "/maintenance/defragment", {})
        after = post(client, base, "/maintenance/status", {})
        said.append("database %s -> %s bytes" % (before.get("dbSize"), after.get("dbSize")))
        for alarm in [a for a in alarms if a.get("alarm") == "NOSPACE"]:
            post(client, base, "/maintenance/alarm", dict(alarm, action="DEACTIVATE"))
            said.append("alarm NOSPACE of member %s switched off" % alarm.get("memberID"))
    except (OSError, ValueError, KeyError) as e:
        stopped = str(e)
    print(json.dumps({"said": said, "stopped": stopped}))


main()
