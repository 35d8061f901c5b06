"""Waits, after an act, until the head lists a new living Ray node for a container. Changes nothing itself."""

import time

from runbooks.core.containers_config import ManagedContainer
from runbooks.core.ray_view import RayNode
from runbooks.core.reading import Known
from tasks.clients.ray_dashboard import read_ray_nodes
from tasks.context import Context

EVERY_S = 0.25  # between two questions to the head


def ray_container(context: Context, name: str) -> ManagedContainer | None:
    """The fleet file's container of that name on the target, if it is a Ray node and the head is known."""
    found = [c for c in context.fleet.containers_on(context.target) if c.name == name and c.ray_ip]
    return found[0] if found and context.fleet.ray else None


def ids_at(context: Context, it: ManagedContainer | None) -> frozenset[str]:
    """Ids of every node that the head has known at its address, living or not."""
    return frozenset(n.node_id for n in nodes_at(context, it.ray_ip)) if it else frozenset()


def nodes_at(context: Context, ip: str) -> list[RayNode]:
    """Every node that the head has known at that address; [] when it does not answer."""
    nodes = read_ray_nodes(context)
    return [n for n in nodes.value if n.ip == ip] if isinstance(nodes, Known) else []


def wait_joined(context: Context, it: ManagedContainer | None, before: frozenset[str]) -> list[str]:
    """A sentence about the new node, at the latest after `join_s` of the limits. [] if it is no Ray node."""
    return wait_for_new(context, it.ray_ip, before) if it else []


def wait_for_new(context: Context, ip: str, before: frozenset[str]) -> list[str]:
    """The same for the Ray node at an address."""
    began, limit = time.monotonic(), context.limit("join_s", "container-death")
    while True:
        new = [n for n in nodes_at(context, ip) if n.alive and n.node_id not in before]
        waited = time.monotonic() - began
        if new:
            what = ", ".join(f"{k} {v:g}" for k, v in sorted(new[0].resources.items()) if "memory" not in k)
            return [f"Ray node {new[0].node_id[:12]} is ALIVE at the head after {waited:.1f} s, with {what or 'no resources'}"]
        if waited > limit:
            return [f"no new Ray node at {ip} within {limit:.0f} s"]
        context.sleep(EVERY_S)
