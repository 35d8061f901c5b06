"""Reads a Ray cluster's dashboard on its head node (where it listens), by `curl` there. Changes nothing."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from runbooks.core.containers_config import ManagedContainer
from runbooks.core.ray_config import RayCluster
from runbooks.core.ray_view import RayHead, RayNode, RayView, Versions
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Reading, Source, Unknown, UnknownReason
from runbooks.parsers.ray import parse_nodes, parse_ray_version, parse_versions
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.halted import halted_process, halted_processes
from tasks.remote.probe import run_probe
from tasks.transport.base import CommandResult, Host, TransportError

T = TypeVar("T")
CURL = ("curl", "-sS", "--noproxy", "*", "--max-time", "8", "-w", "\n%{http_code}")
NOT_NEEDED = Unknown(reason=UnknownReason.NOT_ASKED, detail="its list of nodes came")
WAIT_S = 4.0  # a head that is well answers in milliseconds, a loaded one within a second or two
VERSION = """ray=$(command -v "${1:-ray}") || exit 3
read -r first < "$ray"
python=${first#\\#!}
[ -x "$python" ] || python=python3
exec "$python" -c 'import platform; from importlib.metadata import version; print(version("ray"), platform.python_version())'
"""
CURL_EXITS = {7: UnknownReason.UNREACHABLE, 6: UnknownReason.UNREACHABLE, 28: UnknownReason.TIMED_OUT, 52: UnknownReason.UNREACHABLE,
    56: UnknownReason.UNREACHABLE}


def get(context: Context, host: Host, url: str, parser: Callable[[str], T]) -> Known[T] | Absent | Unknown:
    """GET `url` as seen from `host`, parsed."""
    source = Source(command=f"curl -sS '{url}'", host=host.name, taken_at=context.now())
    try:
        done = host.run((*CURL, url), timeout_s=12, limit_bytes=32 << 20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if done.exit != 0:
        why = CURL_EXITS.get(done.exit, UnknownReason.FAILED)
        return Unknown(reason=why, detail=context.redactor.text(done.err.strip())[:300], source=source)
    return _answer(context, done, parser, source)


def _answer(context: Context, done: CommandResult, parser: Callable[[str], T], source: Source) -> Known[T] | Unknown:
    body, _, code = done.out.rpartition("\n")
    if code.strip() in ("401", "403"):
        return Unknown(reason=UnknownReason.DENIED, detail=f"HTTP {code.strip()}", source=source)
    if code.strip() != "200":
        detail = f"HTTP {code.strip()}: {context.redactor.text(body[:200])}"
        return Unknown(reason=UnknownReason.FAILED, detail=detail, source=source)
    try:
        return Known(value=parser(body), source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)


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


@diagnostic("Ray head · {ray.head}")
def read_ray_head(context: Context, host: Host, ray: RayCluster) -> Known[RayHead] | Unknown:
    """Whether its GCS and dashboard answer on the head's own machine, and their processes."""
    source = Source(command="ss -ltnp; ps -ef | grep -E 'gcs_server|dashboard.py'", host=host.name, taken_at=context.now())
    ask = {"temp_dir": ray.temp_dir, "gcs": ray.gcs, "dashboard": ray.dashboard, "wait_s": WAIT_S}
    try:
        got = run_probe(host, "ray_head", ask, timeout_s=3 * WAIT_S)
        clean = tuple(context.redactor.text(line) for line in got["last_words"])
        servers = {n: {**got[n], "halted": halted_process(context, got[n]["halted"])} for n in ("gcs", "dashboard")}
        stopped = halted_processes(context, got["stopped"])
        return Known[RayHead](value=RayHead.model_validate({**got, **servers, "stopped": stopped, "last_words": clean}), source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=f"head node {host.name}: {e.detail}", source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)


@diagnostic("Ray cluster of {it.name} · {context.target}")
def read_ray(
    context: Context, it: ManagedContainer, host: Host, own_id: str
) -> tuple[Reading[RayView], Reading[RayHead]]:
    """The cluster as its head lists it with the versions inside container `own_id` (""; it does not run), and the head itself.

    The head's processes are looked at where the worker runs or the list does not come: not while a dead one waits.
    """
    ray = context.fleet.ray
    if ray is None or not it.ray_ip:
        none = Absent(proof="the fleet file does not say that this container is a Ray node")
        return none, none
    nodes = read_ray_nodes(context)
    if isinstance(nodes, Known) and not own_id:
        return Known[RayView](value=RayView(version="", nodes=nodes.value), source=nodes.source), NOT_NEEDED
    try:
        head = read_ray_head(context, head_host(context, ray), ray)
    except TransportError as e:
        head = Unknown(reason=e.reason, detail=f"head node {ray.head}: {e.detail}")
    return (_view(context, ray, it, host, own_id, nodes) if isinstance(nodes, Known) else nodes), head


def _view(context: Context, ray: RayCluster, it: ManagedContainer, host: Host, own_id: str,
          nodes: Known[tuple[RayNode, ...]]) -> Known[RayView]:  # fmt: skip
    inside = versions_by(host, (*it.engine, "exec", "-i", own_id))
    version = get(context, head_host(context, ray), f"{ray.dashboard}/api/version", parse_ray_version)
    number = version.value if isinstance(version, Known) else ""
    view = RayView(version=number, nodes=nodes.value, worker_version=inside.ray, worker_python=inside.python)
    return Known[RayView](value=view, source=nodes.source)


def versions_by(host: Host, into: Sequence[str] = (), program: str = "ray") -> Versions:
    """Ray's version and its Python's, as the Python of that `ray` names them; "" if they can't be told."""
    try:
        done = host.run((*into, "sh", "-s", "--", program), stdin=VERSION, timeout_s=10)
    except TransportError:
        return Versions()
    return parse_versions(done.out) if done.exit == 0 else Versions()
