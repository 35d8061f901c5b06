"""Stops one Ray job through its dashboard, if it still is in the state it was judged in. JSON in, JSON out.

Argument: dashboard, submission_id, state, actor_id (its supervisor that must be gone afterwards).
"""

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

WANTS = {"dashboard": "str", "submission_id": "str", "state": "str", "actor_id": "str"}
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(method: str, url: str) -> Any:
    """JSON answer of the dashboard."""
    request = urllib.request.Request(url, method=method)  # noqa: S310 - an http(s) URL of the fleet file
    with OPEN.open(request, timeout=15) as answer:
        return json.loads(answer.read())


def supervisor(args: "dict[str, Any]") -> str:
    """State of the supervisor, "" when it is not listed."""
    found = ask("GET", "%s/api/v0/actors/%s" % (args["dashboard"], args["actor_id"]))
    return str(((found.get("data") or {}).get("result") or {}).get("state") or "")


def begun_again(url: str, judged: "dict[str, Any]") -> str:
    """What to say where the id is another job's by now: deleted and submitted anew in that moment. "" where it is the same one."""
    try:
        now = ask("GET", url)
    except (OSError, ValueError):
        return ""
    if now.get("start_time") in (judged.get("start_time"), None):
        return ""
    return "in this very moment it was submitted again under that id, and the new one (now %s) may have been stopped" % now.get("status")


def main(args: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    url = "%s/api/jobs/%s" % (args["dashboard"], quote(args["submission_id"], safe=""))
    try:
        job = ask("GET", url)
        now = job["status"]
        if now != args["state"]:
            return {"refused": "the job is %s now, not %s" % (now, args["state"]), "code": "target-changed"}
        stopped = ask("POST", url + "/stop").get("stopped")
    except (OSError, ValueError, KeyError) as e:
        return {"refused": "the dashboard: %s" % e, "code": "cannot-check"}
    said = ["stop request for %s (it was %s): stopped=%s" % (args["submission_id"], now, stopped)]
    begun = begun_again(url, job)
    if begun:
        return {"failed": "%s; %s" % (said[0], begun)}
    end = time.monotonic() + 15
    while args["actor_id"] and time.monotonic() < end:
        try:
            state = supervisor(args)
        except (OSError, ValueError):
            state = "unknown"
        if state in ("DEAD", ""):
            return {"said": [*said, "its supervisor %s is gone" % args["actor_id"]]}
        time.sleep(0.5)
    if args["actor_id"]:
        return {"failed": "%s; its supervisor is still there: end it by hand with ray.kill" % said[0]}
    return {"said": said}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
