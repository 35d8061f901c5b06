"""From a container's `inspect` to the request that creates one of the same configuration, and the comparison of two."""

import copy
import posixpath
from typing import Any

from tasks.remote.probes.refused import Refused

OWN_NETWORKS = ("host", "none", "bridge", "default", "")


def create_body(old: "dict[str, Any]", image: str, endless: "list[str]") -> "tuple[dict[str, Any], list[str]]":
    """Body of POST /containers/create, and notes. `endless`: the whole command line to run instead, [] = the same."""
    body = copy.deepcopy(old["Config"])
    host = copy.deepcopy(old["HostConfig"])
    notes: "list[str]" = []
    body["Image"] = image
    if host.get("UTSMode") == "host" or body.get("Hostname") == old["Id"][:12]:
        body.pop("Hostname")  # the engine gives it
    if endless:
        entry = len(body.get("Entrypoint") or ())
        body["Entrypoint"], body["Cmd"] = endless[:entry] or None, endless[entry:]
    host["Links"] = [link_of(x) for x in host.get("Links") or ()] or None
    for limit in host.get("Ulimits") or ():
        limit["Name"] = limit["Name"].replace("RLIMIT_", "").lower()  # Podman shows the kernel's name, takes Docker's
    keep_volumes(old, host, notes)
    body["HostConfig"] = host
    mode = host.get("NetworkMode", "")
    nets = (old.get("NetworkSettings") or {}).get("Networks") or {}
    if mode not in OWN_NETWORKS and mode in nets:
        body["NetworkingConfig"] = {"EndpointsConfig": {mode: endpoint(old, nets[mode])}}
    return body, notes


def made_endless(old: "dict[str, Any]", sleep: "list[Any]") -> "list[str]":
    """The container's own words (secrets and all: the judgment's were cleaned) with the sleep's length made endless.

    `sleep`: in which word the length stands, and how; it must still stand there. Raises Refused.
    """
    if not sleep:
        return []
    at, length = sleep
    parts = [old["Config"].get("Entrypoint") or [], old["Config"].get("Cmd") or []]
    words = [w for part in parts for w in (part.split() if isinstance(part, str) else part)]
    place = words[at].rfind(length) if at < len(words) else -1
    if place < 0:
        raise Refused("target-changed", "its command is no longer a sleep of %s" % length)
    if words[at] == length:  # the rest of a plain sleep's words are lengths too
        return [*words[:at], "infinity"]
    return [*words[:at], words[at][:place] + "infinity" + words[at][place + len(length) :], *words[at + 1 :]]


def more_networks(old: "dict[str, Any]") -> "list[tuple[str, dict[str, Any]]]":
    """Networks that it was connected to besides the one it was created in."""
    mode = old["HostConfig"].get("NetworkMode", "")
    mine = "bridge" if mode in ("default", "") else mode
    nets = (old.get("NetworkSettings") or {}).get("Networks") or {}
    if mode in ("host", "none") or mode.startswith("container:"):
        return []
    return [(name, endpoint(old, net)) for name, net in sorted(nets.items()) if name != mine]


def endpoint(old: "dict[str, Any]", net: "dict[str, Any]") -> "dict[str, Any]":
    """What was asked of a network, without what the engine gave."""
    aliases = [a for a in net.get("Aliases") or () if a != old["Id"][:12]]
    return {"IPAMConfig": net.get("IPAMConfig"), "Links": net.get("Links"), "Aliases": aliases or None,
            "DriverOpts": net.get("DriverOpts")}  # fmt: skip


def link_of(text: str) -> str:
    """`/other:/me/alias`, as inspect shows a link, in the form that create takes."""
    source, _, target = text.partition(":")
    return "%s:%s" % (source.lstrip("/"), target.rsplit("/", 1)[-1])


def keep_volumes(old: "dict[str, Any]", host: "dict[str, Any]", notes: "list[str]") -> None:
    """Anonymous volumes go along by their names; otherwise the new container would get empty ones."""
    bound = {posixpath.normpath(b.split(":")[1]) for b in host.get("Binds") or () if b.count(":") >= 1}
    listed = {posixpath.normpath(m.get("Target") or "/"): m for m in host.get("Mounts") or ()}
    for mount in old.get("Mounts") or ():
        target, name = mount.get("Destination"), mount.get("Name")
        if mount.get("Type") != "volume" or not name or target in bound:
            continue
        if target in listed:
            listed[target]["Source"] = listed[target].get("Source") or name
        elif not host.get("VolumesFrom"):
            mode = mount.get("Mode") or ("rw" if mount.get("RW", True) else "ro")
            host["Binds"] = (host.get("Binds") or []) + ["%s:%s:%s" % (name, target, mode)]
            notes.append("volume %s goes along at %s" % (name[:12], target))


def comparable(it: "dict[str, Any]", endless: bool) -> "dict[str, Any]":
    """Every setting as `section.field` -> value, without what is a container's own (ids, times, given addresses)."""
    fields: "dict[str, Any]" = {}
    for section in ("Config", "HostConfig"):
        for key, value in (it.get(section) or {}).items():
            fields["%s.%s" % (section, key)] = value if value not in ([], {}, "", None) else None
    if fields.get("Config.Hostname") == it["Id"][:12]:
        fields["Config.Hostname"] = "(its own id)"
    if endless:
        for key in ("Config.Cmd", "Config.Entrypoint"):
            fields.pop(key, None)
    fields["Config.Env"] = sorted(fields.get("Config.Env") or ())
    for key in ("HostConfig.Binds", "HostConfig.Mounts", "HostConfig.ContainerIDFile"):
        fields.pop(key, None)  # compared as Mounts, which is what they come to
    for m in it.get("Mounts") or ():
        mode = sorted(set((m.get("Mode") or "").split(",")) - {"", "rw", "ro", "z"})
        values = [m.get(k) for k in ("Type", "Name", "Source", "RW", "Propagation")]
        fields["Mounts." + m["Destination"]] = [*values, mode]
    for name, net in ((it.get("NetworkSettings") or {}).get("Networks") or {}).items():
        fields["Networks." + name] = endpoint(it, net)
    fields["Image"] = it.get("Image")
    return fields


def differences(old: "dict[str, Any]", new: "dict[str, Any]", endless: bool) -> "list[str]":
    """Fields that differ; of environment variables only their names are told."""
    a, b = comparable(old, endless), comparable(new, endless)
    found = []
    for key in sorted(set(a) | set(b)):
        if a.get(key) == b.get(key):
            continue
        if key == "Config.Env":
            names = {e.split("=", 1)[0] for e in set(a[key]) ^ set(b[key])}
            found.append("Config.Env: " + ", ".join(sorted(names)))
        else:
            found.append("%s: %r is now %r" % (key, a.get(key), b.get(key)))
    return found
