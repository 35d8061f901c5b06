"""Reads a Ray cluster's dashboard on its head node (where it listens), by `curl` there. Changes nothing."""

import re
from collections.abc import Callable
from typing import TypeVar

from runbooks.container_death.evidence import RayNode, RayView
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.ray_config import RayCluster
from runbooks.core.reading import Absent, Known, Source, Unknown, Why
from runbooks.parsers.ray import parse_nodes, parse_ray_version
from tasks.context import Context
from tasks.transport.base import Done, Host, TransportError

T = TypeVar("T")
CURL = ("curl", "-sS", "--noproxy", "*", "--max-time", "8", "-w", "\n%{http_code}")
VERSION_TEXT = re.compile(r"\d+\.\d+[\w.+-]{0,30}")
VERSION = """ray=$(command -v ray) || exit 3
read -r first < "$ray"
python=${first#\\#!}
[ -x "$python" ] || python=python3
exec "$python" -c 'from importlib.metadata import version; print(version("ray"))'
"""
CURL_EXITS = {7: Why.UNREACHABLE, 6: Why.UNREACHABLE, 28: Why.TIMED_OUT, 52: Why.UNREACHABLE, 56: Why.UNREACHABLE}


def get(context: Context, host: Host, url: str, parser: Callable[[str], T]) -> Known[T] | Absent | Unknown:
    """GET `url` as seen from `host`, parsed."""
    source = Source(command=f"curl -sS '{url}'", host=host.name, taken_at=context.now())
    try:
        done = host.run((*CURL, url), timeout_s=12, limit_bytes=32 << 20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if done.exit != 0:
        why = CURL_EXITS.get(done.exit, Why.FAILED)
        return Unknown(reason=why, detail=context.redactor.text(done.err.strip())[:300], source=source)
    return _answer(context, done, parser, source)


def _answer(context: Context, done: Done, parser: Callable[[str], T], source: Source) -> Known[T] | Unknown:
    body, _, code = done.out.rpartition("\n")
    if code.strip() in ("401", "403"):
        return Unknown(reason=Why.DENIED, detail=f"HTTP {code.strip()}", source=source)
    if code.strip() != "200":
        detail = f"HTTP {code.strip()}: {context.redactor.text(body[:200])}"
        return Unknown(reason=Why.FAILED, detail=detail, source=source)
    try:
        return Known(value=parser(body), source=source)
    except (ValueError, KeyError, TypeError) as e:
        return Unknown(reason=Why.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)


def head_host(context: Context, ray: RayCluster) -> Host:
    """The head node's connection. Raises TransportError."""
    return context.open_host(context.fleet.node(ray.head))


def read_ray_nodes(context: Context) -> Known[tuple[RayNode, ...]] | Absent | Unknown:
    """The cluster's nodes as the head lists them."""
    ray = context.fleet.ray
    if ray is None:
        return Absent(proof="the fleet file has no `ray` section")
    try:
        host = head_host(context, ray)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=f"head node {ray.head}: {e.detail}")
    return get(context, host, f"{ray.dashboard}/api/v0/nodes?detail=1&limit=10000", parse_nodes)


def read_ray_view(
    context: Context, it: ManagedContainer, host: Host | None = None, own_id: str = ""
) -> Known[RayView] | Absent | Unknown:
    """The cluster's nodes, the head's version, and the version inside container `own_id` of `host` ("": not asked)."""
    ray = context.fleet.ray
    if ray is None or not it.ray_ip:
        return Absent(proof="the fleet file does not say that this container is a Ray node")
    nodes = read_ray_nodes(context)
    if not isinstance(nodes, Known):
        return nodes
    inside = _version_inside(host, it, own_id) if host and own_id else ""
    version = get(context, head_host(context, ray), f"{ray.dashboard}/api/version", parse_ray_version)
    number = version.value if isinstance(version, Known) else ""
    view = RayView(version=number, nodes=nodes.value, worker_version=inside)
    return Known[RayView](value=view, source=nodes.source)


def _version_inside(host: Host, it: ManagedContainer, own_id: str) -> str:
    """Ray's version as the container's own Python names it; "" if it can't be told."""
    try:
        done = host.run((*it.engine, "exec", "-i", own_id, "sh", "-s"), stdin=VERSION, timeout_s=10)
    except TransportError:
        return ""
    words = done.out.strip()
    return words if done.exit == 0 and VERSION_TEXT.fullmatch(words) else ""
