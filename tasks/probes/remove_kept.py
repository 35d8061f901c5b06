"""Removes one container that a recreation set aside; never a volume. JSON argument: {socket, id, kept}."""

import json
import sys
from typing import Any

from tasks.probes.engine_api import Api, EngineError


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    api = Api(ask["socket"])
    try:
        it = api.inspect(ask["id"])
        if it is None:
            return {"refused": "there is no container %s any more" % ask["id"][:12]}
        if it["Name"].lstrip("/") != ask["kept"] or ".dead-" + ask["id"][:12] not in ask["kept"]:
            return {"refused": "container %s is called %s: not one that was set aside" % (ask["id"][:12], it["Name"])}
        if it["State"]["Status"] not in ("exited", "dead", "created"):
            return {"refused": "it is %s" % it["State"]["Status"]}
        api.call("DELETE", "/containers/%s" % ask["id"])
    except (EngineError, OSError) as e:
        return {"refused": str(e)}
    return {"said": ["removed %s (%s)" % (ask["kept"], ask["id"][:12])]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
