"""Changes one container: a new one of the same configuration takes its name, the old one is kept. JSON in, JSON out.

Argument: engine, socket, name, id, started_at, running, kept, sleep, setup, setup_timeout_s, mounts, start, detached.
The environment is read from the engine here and given back to the engine; it never leaves this program.
"""

import json
import sys
from typing import Any

from tasks.container.probes.container_config import create_body, differences, made_endless, more_networks
from tasks.container.probes.engine_api import Api, EngineError
from tasks.container.probes.run_inside import run_all, same_start, still_named
from tasks.remote.probes.refused import Refused, refusal

WANTS = {
    "engine": "list", "socket": "str", "name": "str", "id": "str", "kept": "str", "started_at": "str", "running": "bool", "sleep": "list",
    "setup": "list", "setup_timeout_s": "number", "mounts": "list", "start": "list", "detached": "bool",
}  # fmt: skip
DEAD = ("exited", "dead", "created")


def check(api: Api, ask: "dict[str, Any]") -> "dict[str, Any]":
    """The container as judged, or Refused."""
    old = still_named(api, ask)
    state = old["State"]
    if old["HostConfig"].get("AutoRemove"):
        raise Refused("not-supported", "it has AutoRemove (--rm): it goes when it ends, with its configuration; not recoverable this way")
    alive = state["Status"] not in DEAD
    if alive != ask["running"] or state.get("Paused"):
        raise Refused("target-changed", "it is %s now" % state["Status"])
    if state["Status"] != "restarting":
        same_start(state, ask)
    if api.inspect(ask["kept"]) is not None:
        raise Refused("would-overwrite", "there is a container %s already" % ask["kept"])
    return old


def image_of(api: Api, old: "dict[str, Any]") -> "tuple[str, str]":
    """How to name the image so that it is the very same: by its tag if that still means it, else by id. And a note."""
    tag, ident = old["Config"]["Image"], old["Image"]
    try:
        if api.call("GET", "/images/%s/json" % tag)["Id"] == ident:
            return tag, ""
    except EngineError:
        pass
    return ident, "the tag %s no longer means its image: %s is used by id" % (tag, ident[:19])


def create(api: Api, old: "dict[str, Any]", ask: "dict[str, Any]", said: "list[str]") -> str:
    """The new container under a passing name, connected to all networks, not started. Its id."""
    passing = ask["name"] + ".new-" + ask["id"][:12]
    left = api.inspect(passing)
    if left is not None and left["State"]["Status"] == "created":
        api.call("DELETE", "/containers/%s" % left["Id"])  # of an attempt that was cut off; it never ran
    image, note = image_of(api, old)
    body, notes = create_body(old, image, made_endless(old, ask["sleep"]))
    said += [n for n in [note, *notes] if n]
    new = str(api.call("POST", "/containers/create?name=" + passing, body)["Id"])
    try:
        for network, endpoint in more_networks(old):
            api.call("POST", "/networks/%s/connect" % network, {"Container": new, "EndpointConfig": endpoint})
    except EngineError:
        api.call("DELETE", "/containers/%s" % new)
        raise
    return new


def set_aside(api: Api, old: "dict[str, Any]", ask: "dict[str, Any]") -> None:
    """The old container: no restart policy (proven), stopped, renamed. Raises Refused when that can't be proven."""
    policy = old["HostConfig"].get("RestartPolicy") or {}
    if policy.get("Name") not in ("", "no", None):
        try:
            api.call("POST", "/containers/%s/update" % ask["id"], {"RestartPolicy": {"Name": "no"}})
        except EngineError as e:
            raise Refused(
                "not-supported", "its restart policy can't be taken away (%s): it could come back beside the new one" % e
            ) from e
    if ask["running"]:
        api.call("POST", "/containers/%s/stop?t=10" % ask["id"], timeout=60)
    api.call("POST", "/containers/%s/rename?name=%s" % (ask["id"], ask["kept"]))
    now = api.inspect(ask["id"]) or {"HostConfig": {}, "Name": "", "State": {}}
    left = (now["HostConfig"].get("RestartPolicy") or {}).get("Name")
    if left not in ("", "no", None) or now["State"].get("Status") not in DEAD:
        raise EngineError(0, "the old container has restart policy %s and is %s" % (left, now["State"].get("Status")))


def put_back(api: Api, old: "dict[str, Any]", ask: "dict[str, Any]", new: str) -> str:
    """Undo: the new container (which never ran well) goes, the old one gets its name and policy back, and runs if it ran."""
    said, again = [], [("old one started again", ("POST", "/containers/%s/start" % ask["id"], None))]
    for what, call in [
        ("new container removed", ("DELETE", "/containers/%s?force=1" % new, None)),
        ("old name back", ("POST", "/containers/%s/rename?name=%s" % (ask["id"], ask["name"]), None)),
        ("old restart policy back", ("POST", "/containers/%s/update" % ask["id"],
                                     {"RestartPolicy": old["HostConfig"].get("RestartPolicy") or {"Name": "no"}})),
        *(again if ask["running"] else []),
    ]:  # fmt: skip
        try:
            api.call(*call)
            said.append(what)
        except (EngineError, OSError) as e:
            said.append("not %s: %s" % (what, e))
    return "; ".join(said)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    api = Api(ask["socket"])
    said: "list[str]" = []
    try:
        old = check(api, ask)
        new = create(api, old, ask, said)
    except (Refused, EngineError, OSError) as e:
        return refusal(e)
    try:
        set_aside(api, old, ask)
        api.call("POST", "/containers/%s/rename?name=%s" % (new, ask["name"]))
        api.call("POST", "/containers/%s/start" % new)
    except (Refused, EngineError, OSError) as e:
        undone = put_back(api, old, ask, new)
        why = "%s (%s)" % (e, undone)
        return refusal(Refused(e.code, why)) if isinstance(e, Refused) else {"failed": why}
    now = api.inspect(new)
    if now is None:
        return {"failed": "the new container %s is gone right after its start" % new[:12]}
    return {"id": new, "said": said, "differences": differences(old, now, bool(ask["sleep"])),
            "ran": run_all(ask, new, old["Config"].get("Env") or [])}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
