"""Waits for changes of watched containers and Ray nodes, by probes on their machines. Changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from runbooks.container.parsers.docker import parse_time
from runbooks.container.watching import ContainerSeen
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.knowledge import usual_limits
from runbooks.core.ray_config import RayCluster
from tasks.remote.probe import run_probe
from tasks.transport.base import Host

MARGIN_S = 40.0  # beyond the wait: a slow engine, a slow line


def wait_at_engine(
    host: Host, containers: Sequence[ManagedContainer], known: Mapping[str, Any] | None, since: float, wait_s: float,
    sample_s: float,
) -> dict[str, Any]:  # fmt: skip
    """The engine's containers as soon as one differs from `known`, or after `wait_s`; and samples meanwhile.

    All `containers` belong to one engine. Keys: states, problem, samples, since, at. Raises TransportError.
    """
    ask = {
        "socket": containers[0].socket, "containers": {c.name: c.match for c in containers}, "known": known,
        "since": since, "wait_s": wait_s, "sample_s": sample_s, "disks": sorted({d for c in containers for d in c.disks}),
    }  # fmt: skip
    return run_probe(host, "watch_node", ask, timeout_s=wait_s + MARGIN_S)


def wait_at_head(
    host: Host, ray: RayCluster, ips: Sequence[str], known: Mapping[str, Any] | None, wait_s: float, every_s: float
) -> dict[str, Any]:
    """The living Ray node of each address as soon as one differs from `known`. Keys: nodes, problem, at.

    Raises TransportError.
    """
    ask = {"dashboard": ray.dashboard, "ips": list(ips), "known": known, "wait_s": wait_s, "every_s": every_s}
    return run_probe(host, "watch_ray", ask, timeout_s=wait_s + MARGIN_S)


def known_from(answer: Mapping[str, Any], what: str) -> dict[str, Any]:
    """What the next call is told, so that it answers only when something is different."""
    value = answer[what] if what == "states" else {ip: n["id"] for ip, n in answer[what].items()}
    return {what: value, "problem": bool(answer["problem"])}


def seen_at_engine(before: ContainerSeen, answer: Mapping[str, Any], name: str) -> ContainerSeen:
    """What is known of a container after an answer of its engine; Ray's part stays."""
    if answer["problem"]:
        return before.model_copy(update={"engine_down": str(answer["problem"]), "unreachable": ""})
    found = answer["states"][name]
    return ContainerSeen(**found, ray_node=before.ray_node)


def living_node(seen: ContainerSeen, answer: Mapping[str, Any], ip: str) -> str | None:
    """Id of the living Ray node at `ip`, "" none, None when the head does not say.

    The head goes on listing a node for seconds after its container was killed: one that began before the container
    that runs now (by more than clocks differ) is none.
    """
    if answer["problem"] or ip not in answer["nodes"]:
        return None
    node = answer["nodes"][ip]
    began, apart_s = parse_time(seen.started), float(usual_limits("container-death")["clocks_apart_s"])
    if began is not None and node["started_ms"] / 1000 < began.timestamp() - apart_s:
        return ""
    return str(node["id"])
