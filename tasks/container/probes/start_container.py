"""Changes one container from ended to running, as it is, and runs commands inside. JSON in, JSON out.

Argument: engine, socket, name, id, started_at, setup, setup_timeout_s, mounts, start, detached.
"""

import json
import sys
from typing import Any

from tasks.container.probes.engine_api import Api, EngineError
from tasks.container.probes.run_inside import run_all, same_start, still_named
from tasks.remote.probes.refused import Refused, refusal

WANTS = {
    "engine": "list", "socket": "str", "name": "str", "id": "str", "started_at": "str", "setup": "list", "setup_timeout_s": "number",
    "mounts": "list", "start": "list", "detached": "bool",
}  # fmt: skip
GONE = 404


def check(api: Api, ask: "dict[str, Any]") -> "dict[str, Any]":
    """The container as judged, or Refused."""
    it = still_named(api, ask)
    if it["State"]["Status"] != "exited":
        raise Refused("target-changed", "it is %s now" % it["State"]["Status"])
    same_start(it["State"], ask)
    return it


def begin(api: Api, ident: str) -> None:
    """Starts it. Refused where somebody else was first, or it is gone: then nothing may be run in it from here."""
    try:
        mine = api.start(ident)
    except EngineError as e:
        if e.status == GONE:
            raise Refused("target-changed", "container %s was removed in this very moment" % ident[:12]) from e
        raise
    if not mine:
        raise Refused("target-changed", "somebody else started it in this very moment: nothing was run in it")


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    api = Api(ask["socket"])
    try:
        it = check(api, ask)
    except (Refused, EngineError, OSError) as e:
        return refusal(e)
    try:
        begin(api, ask["id"])
        now = api.inspect(ask["id"])
    except Refused as e:
        return refusal(e)
    except (EngineError, OSError) as e:
        return {"failed": "the engine was asked to start it: %s" % e}
    if now is None or now["State"]["Status"] != "running":
        how = "is gone" if now is None else "is %s with exit code %s" % (now["State"]["Status"], now["State"]["ExitCode"])
        return {"failed": "it was started and %s right after that" % how}
    return {"started": now["State"]["StartedAt"], "before": it["State"]["StartedAt"],
            "ran": run_all(ask, ask["id"], it["Config"].get("Env") or [])}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
