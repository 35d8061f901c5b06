"""Removes one container that a recreation set aside; never a volume. JSON argument: {socket, id, kept}."""

import json
import sys
from typing import Any

from tasks.container.probes.engine_api import Api, EngineError
from tasks.remote.probes.aside import unguessable
from tasks.remote.probes.refused import refusal

WANTS = {"socket": "str", "id": "str", "kept": "str"}
ENDED = ("exited", "dead", "created")


def remove(api: Api, ask: "dict[str, Any]", gone: str) -> str:
    """Under a name that nobody knows, where nobody starts or renames it by its name; "" or why it has its name again.

    The engine itself refuses to remove one that runs."""
    api.call("POST", "/containers/%s/rename?name=%s" % (ask["kept"], gone))  # by its name: who renamed it was first
    try:
        now = api.inspect(ask["id"])
        if now is None:
            return "there is no container %s any more" % ask["id"][:12]
        if now["Name"].lstrip("/") != gone:
            return "container %s was given the name %s in this very moment" % (ask["id"][:12], now["Name"])
        if now["State"]["Status"] not in ENDED:
            raise EngineError(409, "it is %s now" % now["State"]["Status"])
        api.call("DELETE", "/containers/%s" % ask["id"])
    except EngineError:
        api.call("POST", "/containers/%s/rename?name=%s" % (ask["id"], ask["kept"]))
        raise
    return ""


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    api = Api(ask["socket"])
    try:
        it = api.inspect(ask["id"])
        if it is None:
            return {"refused": "there is no container %s any more" % ask["id"][:12], "code": "target-changed"}
        if it["Name"].lstrip("/") != ask["kept"] or ".dead-" + ask["id"][:12] not in ask["kept"]:
            return {"refused": "container %s is called %s: not one that was set aside" % (ask["id"][:12], it["Name"]), "code": "not-ours"}
        if it["State"]["Status"] not in ENDED:
            return {"refused": "it is %s" % it["State"]["Status"], "code": "target-changed"}
        why = remove(api, ask, unguessable(ask["kept"]))
        if why:
            return {"refused": why, "code": "target-changed"}
    except (EngineError, OSError) as e:
        return refusal(e)
    return {"said": ["removed %s (%s)" % (ask["kept"], ask["id"][:12])]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
