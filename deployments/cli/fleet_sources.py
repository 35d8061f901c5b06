"""Reads what other tools know of the machines: a plain list, /etc/hosts, Slurm, Kubernetes.

Each reader takes the text of a file, adds nodes to `Imported`, and remarks on what it leaves out.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deployments.cli.fleet_ansible import read_ansible
from deployments.errors import CommandError
from runbooks.core.whole_number import whole_number

if TYPE_CHECKING:
    from deployments.cli.imported import Imported

PLACE = re.compile(r"(?:(?P<user>[^@\s:]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@\s:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
OFF = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "FUTURE", "UNKNOWN", "NOT_RESPONDING")


def read_list(text: str, found: "Imported") -> None:
    """One machine a line: `host`, `user@host:port`, or a name and a place; `#` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        place = PLACE.fullmatch(words[-1]) if words else None
        if len(words) > 2 or (words and not place):
            found.say(f"line {number} left out: not `user@host:port`, with a name before it or without")
        elif place:
            host = place["host"].strip("[]")
            fields = {"host": host, "port": found.port(f"line {number}", place["port"]), "user": place["user"]}
            found.add(words[0] if len(words) == 2 else host, fields)


def read_etc_hosts(text: str, found: "Imported") -> None:
    """Lines of /etc/hosts: an address and names; the first name names the node. Loopback and multicast are left out."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            address = ipaddress.ip_address(words[0].partition("%")[0])
        except ValueError:
            found.say(f"line {number} left out: {words[0]} is no address")
            continue
        if address.is_loopback or address.is_multicast or address.is_link_local or address.is_unspecified or len(words) < 2:
            found.say(f"line {number} left out: {' '.join(words)}: no machine of a fleet")
        else:
            found.add(words[1], {"host": words[0]})


def read_slurm(text: str, found: "Imported") -> None:
    """`scontrol show nodes` (with or without -o). Nodes that are down or drained are taken, and told."""
    for block in re.split(r"(?m)^(?=NodeName=)", text):
        fields = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", block))
        if not (name := fields.get("NodeName")):
            continue
        state = fields.get("State", "")
        if any(word in state.upper() for word in OFF):
            found.say(f"{name}: {state} in Slurm")
        gres = re.findall(r"gpu(?::([A-Za-z][\w-]*))?:([0-9]+)", fields.get("Gres", ""))
        labels = {"gpu": gres[0][0]} if gres and gres[0][0] else {}
        gpus = sum(whole_number(count) or 0 for _, count in gres) or None
        found.add(name, {"host": fields.get("NodeAddr") or name, "labels": labels, "gpus": gpus})


def read_kubernetes(text: str, found: "Imported") -> None:
    """`kubectl get nodes -o json`. The user and key of a log-in by SSH are not in there."""
    try:
        items = json.loads(text)["items"]
        for item in items:
            _add_kubernetes(item, found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise CommandError(f"not the output of `kubectl get nodes -o json`: {type(e).__name__}: {e}") from e
    found.say("users and keys for SSH are not in Kubernetes: add `user` and `key` where the defaults do not hold")


def _add_kubernetes(item: Mapping[str, Any], found: "Imported") -> None:
    name, status = str(item["metadata"]["name"]), item.get("status") or {}
    addresses = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    labels = item["metadata"].get("labels") or {}
    product = labels.get("nvidia.com/gpu.product") or labels.get("cloud.google.com/gke-accelerator")
    gpus = whole_number((status.get("capacity") or {}).get("nvidia.com/gpu"))
    ready = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), "Unknown")
    if ready != "True" or (item.get("spec") or {}).get("unschedulable"):
        found.say(f"{name}: {'cordoned' if ready == 'True' else 'not ready'} in Kubernetes")
    host = addresses.get("InternalIP") or addresses.get("Hostname") or name
    found.add(name, {"host": host, "labels": {"gpu": product} if isinstance(product, str) else {}, "gpus": gpus or None})


SOURCES: dict[str, Callable[[str, "Imported"], None]] = {
    "list": read_list,
    "etc-hosts": read_etc_hosts,
    "ansible": read_ansible,
    "slurm": read_slurm,
    "kubernetes": read_kubernetes,
}
