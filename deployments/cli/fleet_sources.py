"""Reads what other tools know of the machines: a plain list, /etc/hosts, an Ansible inventory, Slurm, Kubernetes.

Each reader takes the text of a file, adds nodes to `Imported`, and remarks on what it leaves out.
"""

import ipaddress
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from deployments.errors import CommandError

if TYPE_CHECKING:
    from deployments.cli.imported import Imported

PLACE = re.compile(r"(?:(?P<user>[^@\s:]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@\s:\[\]]+)(?::(?P<port>\d{1,5}))?")
OFF = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "FUTURE", "UNKNOWN", "NOT_RESPONDING")
MOST = 20_000  # machines of one range; more is a mistyped one
ANSIBLE = {"ansible_host": "host", "ansible_port": "port", "ansible_user": "user", "ansible_ssh_private_key_file": "key"}


def read_list(text: str, found: "Imported") -> None:
    """One machine a line: `host`, `user@host:port`, or a name and a place; `#` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        place = PLACE.fullmatch(words[-1]) if words else None
        if len(words) > 2 or (words and not place):
            found.remarks.append(f"line {number} left out: not `user@host:port`, with a name before it or without")
        elif place:
            port = int(place["port"]) if place["port"] else None
            fields = {"host": place["host"].strip("[]"), "port": port, "user": place["user"]}
            found.add(words[0] if len(words) == 2 else place["host"].strip("[]"), fields)


def read_etc_hosts(text: str, found: "Imported") -> None:
    """Lines of /etc/hosts: an address and names; the first name names the node. Loopback and multicast are left out."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            address = ipaddress.ip_address(words[0].partition("%")[0])
        except ValueError:
            found.remarks.append(f"line {number} left out: {words[0]} is no address")
            continue
        if address.is_loopback or address.is_multicast or address.is_link_local or address.is_unspecified or len(words) < 2:
            found.remarks.append(f"line {number} left out: {' '.join(words)}: no machine of a fleet")
        else:
            found.add(words[1], {"host": words[0]})


def read_ansible(text: str, found: "Imported") -> None:
    """An Ansible inventory, INI or YAML. Variables in other files, and those that are computed, are not read."""
    if re.search(r"^\s*[\w-]+:\s*$", text, re.M) and not re.search(r"^\s*\[[^\]]+\]", text, re.M):
        hosts = _ansible_yaml(text)
    else:
        hosts = _ansible_ini(text, found)
    for name, variables in hosts.items():
        _add_ansible(name, variables, found)
    found.remarks.append("group_vars and host_vars are in other files and were not read")


def _add_ansible(name: str, variables: Mapping[str, Any], found: "Imported") -> None:
    fields: dict[str, Any] = {"host": name}
    for variable, value in variables.items():
        if "{{" in str(value):
            found.remarks.append(f"{name}: {variable} left out: it is computed")
        elif variable in ANSIBLE:
            fields[ANSIBLE[variable]] = value
        elif variable == "ansible_connection" and value == "local":
            found.remarks.append(f"{name}: ansible_connection local is not carried over; write `local: true` where it is this machine")
        elif "pass" in variable:
            found.remarks.append(f"{name}: {variable} left out: log-ins are by key")
    port = str(fields.pop("port", ""))
    key = fields.pop("key", None)
    found.add(name, fields | {"port": int(port) if port.isdigit() else None, "key": {"file": key} if key else None})


def _ansible_ini(text: str, found: "Imported") -> dict[str, dict[str, Any]]:
    hosts: dict[str, dict[str, Any]] = {}
    groups: dict[str, list[str]] = {}
    shared: dict[str, dict[str, Any]] = {}
    group, what = "ungrouped", ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if head := re.fullmatch(r"\[([^:\]]+)(?::(\w+))?\].*", line):
            group, what = head[1], head[2] or ""
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError as e:
            found.remarks.append(f"line {number} left out: {e}")
            continue
        if what == "vars":
            name, _, value = line.partition("=")
            shared.setdefault(group, {})[name.strip()] = value.strip().strip("'\"")
        elif what == "children":
            groups.setdefault(group, []).append(f"@{words[0]}")
        elif words:
            for host in _ranges(words[0], r"\[(\w+):(\w+)(?::\d+)?\]"):
                hosts.setdefault(host, {}).update(dict(w.partition("=")[::2] for w in words[1:] if "=" in w))
                groups.setdefault(group, []).append(host)
    for name in shared:
        for host in hosts if name == "all" else _members(name, groups):
            hosts[host] = shared[name] | hosts.get(host, {})
    return hosts


def _members(group: str, groups: Mapping[str, list[str]], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    for name in groups.get(group, []):
        if not name.startswith("@"):
            yield name
        elif name[1:] not in seen:
            yield from _members(name[1:], groups, seen | {group})


def _ansible_yaml(text: str) -> dict[str, dict[str, Any]]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise CommandError(f"not an Ansible inventory: {' '.join(str(e).split())}") from e
    hosts: dict[str, dict[str, Any]] = {}

    def walk(group: Any, variables: dict[str, Any]) -> None:
        if not isinstance(group, Mapping):
            return
        mine = variables | dict(group.get("vars") or {})
        for pattern, own in (group.get("hosts") or {}).items():
            for name in _ranges(str(pattern), r"\[(\w+):(\w+)(?::\d+)?\]"):
                hosts[name] = hosts.get(name, {}) | mine | dict(own or {})
        for child in (group.get("children") or {}).values():
            walk(child, mine)

    for group in data.values() if isinstance(data, Mapping) else ():
        walk(group, {})
    return hosts


def _ranges(pattern: str, form: str) -> Iterator[str]:
    """Every name that the pattern stands for: node[01:03] is node01, node02, node03."""
    matched = re.search(form, pattern)
    if not matched:
        yield pattern
        return
    first, last = matched[1], matched[2]
    if first.isdigit() and last.isdigit():
        parts = [str(n).zfill(len(first)) for n in itertools.islice(range(int(first), int(last) + 1), MOST)]
    else:
        parts = [chr(c) for c in range(ord(first[0]), ord(last[0]) + 1)]
    for part in parts:
        yield from _ranges(pattern[: matched.start()] + part + pattern[matched.end() :], form)


def read_slurm(text: str, found: "Imported") -> None:
    """`scontrol show nodes` (with or without -o). Nodes that are down or drained are taken, and told."""
    for block in re.split(r"(?m)^(?=NodeName=)", text):
        fields = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", block))
        if not (name := fields.get("NodeName")):
            continue
        state = fields.get("State", "")
        if any(word in state.upper() for word in OFF):
            found.remarks.append(f"{name}: {state} in Slurm")
        gres = re.findall(r"gpu(?::([A-Za-z][\w-]*))?:(\d+)", fields.get("Gres", ""))
        labels = {"gpu": gres[0][0]} if gres and gres[0][0] else {}
        gpus = sum(int(count) for _, count in gres) or None
        found.add(name, {"host": fields.get("NodeAddr") or name, "labels": labels, "gpus": gpus})


def read_kubernetes(text: str, found: "Imported") -> None:
    """`kubectl get nodes -o json`. The user and key of a log-in by SSH are not in there."""
    try:
        items = json.loads(text)["items"]
        for item in items:
            _add_kubernetes(item, found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise CommandError(f"not the output of `kubectl get nodes -o json`: {type(e).__name__}: {e}") from e
    found.remarks.append("users and keys for SSH are not in Kubernetes: add `user` and `key` where the defaults do not hold")


def _add_kubernetes(item: Mapping[str, Any], found: "Imported") -> None:
    name, status = str(item["metadata"]["name"]), item.get("status") or {}
    addresses = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    labels = item["metadata"].get("labels") or {}
    product = labels.get("nvidia.com/gpu.product") or labels.get("cloud.google.com/gke-accelerator")
    count = str((status.get("capacity") or {}).get("nvidia.com/gpu", ""))
    ready = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), "Unknown")
    if ready != "True" or (item.get("spec") or {}).get("unschedulable"):
        found.remarks.append(f"{name}: {'cordoned' if ready == 'True' else 'not ready'} in Kubernetes")
    host = addresses.get("InternalIP") or addresses.get("Hostname") or name
    gpus = int(count) if count.isdigit() else 0
    found.add(name, {"host": host, "labels": {"gpu": product} if product else {}, "gpus": gpus or None})


SOURCES: dict[str, Callable[[str, "Imported"], None]] = {
    "list": read_list,
    "etc-hosts": read_etc_hosts,
    "ansible": read_ansible,
    "slurm": read_slurm,
    "kubernetes": read_kubernetes,
}
