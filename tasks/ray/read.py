"""Gathers one Ray job: the head's lists, the driver's log, and the logs and workers of every node. Reads only."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from runbooks.core.host_facts import KernelOom
from runbooks.core.ray_config import RayCluster
from runbooks.core.ray_view import RayHead, RayNode, Versions, head_fault
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason, value_or
from runbooks.core.verdict import Certainty
from runbooks.parsers.ray import parse_nodes
from runbooks.ray.cluster import NAME
from runbooks.ray.evidence import Actor, Evidence, LogFile, NodeLogs, RayJob, WorkerActivity
from runbooks.ray.identity import ip_of
from runbooks.ray.parsers import ray_job as parse
from tasks.clients.ray_dashboard import get, read_ray_head, versions_by
from tasks.context import Context
from tasks.diagnostic import ReaderPool, diagnostic, shown
from tasks.remote.halted import halted_process, halted_processes
from tasks.remote.probe import run_probe
from tasks.transport.base import Host, TransportError

FILTER = "detail=1&limit=10000"
WINDOW_S = 2.0  # over which the limits `cpu_moving_s` and `read_moving_bytes` count
DEAD_LOGS = 50  # logs of actors that died on one node, beside the newest ones
LISTS = ("job", "nodes", "actors", "groups", "usage", "other_jobs", "driver_log")


def gather_ray_job(context: Context) -> Evidence:
    """The job of the option `job` (a submission id), or the newest one that has not succeeded."""
    ray = context.fleet.ray
    if ray is None:
        gone = Absent(proof="the fleet file has no `ray` section")
        return Evidence(cluster=context.target, taken_at=context.now(), job=gone)
    ident = str(context.options.get("job") or "")
    fixed: dict[str, Any] = {
        "expected": ray.expected,
        "phases": ray.phases,
        "restart_raylet": ray.restart_raylet,
        "dashboard": ray.dashboard,
        "hands_off": context.fleet.node(ray.head).hands_off,
        "hands_off_nodes": tuple(n.name for n in context.fleet.nodes if n.hands_off and n.name in ray.nodes.values()),
    }
    try:
        host = context.open_host(context.fleet.node(ray.head))
    except TransportError as e:
        why = Unknown(reason=e.reason, detail=f"head node {ray.head}: {e.detail}")
        names = ("head", *LISTS)
        return Evidence(
            cluster=ray.head, taken_at=context.now(), submission_id=ident, **dict.fromkeys(names, why), **fixed
        )
    head = read_ray_head(context, host, ray)
    refused = _not_asked(head)
    readings = refused or _head(context, host, ray, ident)
    job = readings["job"]
    ident = job.value.submission_id if isinstance(job, Known) else ident
    nodes = _nodes(context, ray, readings["actors"], readings["nodes"])
    return Evidence(cluster=ray.head, taken_at=context.now(), submission_id=ident, node_logs=nodes, head=head, **readings, **fixed)


def _not_asked(head: Known[RayHead] | Unknown) -> dict[str, Any]:
    """Every list as unknown where the head is known not to give one: each would take its whole time limit."""
    untold = Unknown(reason=UnknownReason.TIMED_OUT, detail="not asked: the head does not answer")
    fault = head_fault(head, untold) if isinstance(head, Known) else None
    return dict.fromkeys(LISTS, untold) if fault and fault.certainty is Certainty.CONFIRMED else {}


def _head(context: Context, host: Host, ray: RayCluster, ident: str) -> dict[str, Any]:
    """What the head lists, and how long the slowest answer took."""
    clean, url = context.redactor.text, ray.dashboard

    def listed(what: str, at: str, parser: Any) -> Any:
        return shown(f"Ray: {what}", "diagnostic", lambda: get(context, host, at, parser))

    began = time.monotonic()
    wanted: dict[str, tuple[str, Any]] = {
        "nodes": (f"/api/v0/nodes?{FILTER}", parse_nodes),
        "other_jobs": ("/api/jobs/", lambda t: parse.parse_jobs(t, clean)),
        "actors": (f"/api/v0/actors?{FILTER}", lambda t: parse.parse_actors(t, clean)),
        "groups": (f"/api/v0/placement_groups?{FILTER}", parse.parse_groups),
        "usage": ("/api/cluster_status", parse.parse_usage),
    }
    found: dict[str, Any] = {}
    for name, (path, parser) in wanted.items():
        late = [n for n, r in found.items() if isinstance(r, Unknown) and r.reason is UnknownReason.TIMED_OUT]
        none = Unknown(reason=UnknownReason.TIMED_OUT, detail=f"not asked: {late[0]} did not come in time") if late else None
        found[name] = none or listed(name.replace("_", " "), f"{url}{path}", parser)
    found["head_seconds"] = round(time.monotonic() - began, 2)
    found["job"] = job = _asked_for(_pick(found["other_jobs"], ident), found["actors"])
    name = job.value.submission_id if isinstance(job, Known) else ""
    no_log = Absent(proof="no submitted job to read a log of")
    at = f"{url}/api/jobs/{quote(name, safe='')}/logs"
    found["driver_log"] = listed("driver's log", at, lambda t: parse.parse_logs(t, clean)) if name else no_log
    return found


def _asked_for(job: Any, actors: Any) -> Any:
    """The entrypoint's own resources stand with its supervisor, not with the job."""
    if not isinstance(job, Known) or not isinstance(actors, Known) or job.value.resources:
        return job
    mine = [a for a in actors.value if a.name == NAME + job.value.submission_id]
    asked = mine[-1].resources if mine else {}
    return Known[RayJob](value=job.value.model_copy(update={"resources": asked}), source=job.source)


def _pick(jobs: Any, ident: str) -> Known[RayJob] | Absent | Unknown:
    if not isinstance(jobs, Known):
        return jobs if isinstance(jobs, Unknown) else Unknown(reason=UnknownReason.FAILED, detail="no list of jobs")
    all_jobs: tuple[RayJob, ...] = jobs.value
    wanted = [
        j for j in all_jobs if (j.submission_id == ident if ident else j.submission_id and j.status != "SUCCEEDED")
    ]
    if not wanted:
        return Absent(
            proof=f"no job {ident}" if ident else "no submitted job that runs, waits or failed", source=jobs.source
        )
    latest = max(wanted, key=lambda j: j.started_at or datetime.min.replace(tzinfo=UTC))
    return Known[RayJob](value=latest, source=jobs.source)


def _nodes(
    context: Context, ray: RayCluster, actors: Reading[tuple[Actor, ...]], nodes: Reading[tuple[RayNode, ...]]
) -> tuple[Reading[NodeLogs], ...]:
    """Every node that the fleet file names for the cluster, side by side, with the logs of all actors that died there."""
    dead = [a for a in value_or(actors, ()) if a.state == "DEAD"]
    ended = {ip: [a.pid for a in dead if a.pid and ip_of(a, nodes) == ip][-DEAD_LOGS:] for ip in ray.nodes}
    with ReaderPool(max_workers=8) as pool:
        parts = [pool.submit(read_node, context, ray, ip, name, ended[ip]) for ip, name in ray.nodes.items()]
        return tuple(p.result() for p in parts)


@diagnostic("Ray logs and processes · {name}")
def read_node(context: Context, ray: RayCluster, ip: str, name: str, dead: Sequence[int]) -> Known[NodeLogs] | Unknown:
    """One node's logs, raylet, workers and kernel kills."""
    source = Source(command=f"ls -lt {ray.temp_dir}/session_latest/logs", host=name, taken_at=context.now())
    ask = {
        "temp_dir": ray.temp_dir,
        "window_s": WINDOW_S,
        "tail": 16384,
        "logs": 40,
        "pids": list(dead),
        "driver": ray.driver_log,
        "ip": ip,
    }
    try:
        host = context.open_host(context.fleet.node(name))
        got = run_probe(host, "ray_node", ask, timeout_s=40)
        versions = Versions(**got["versions"]) if got["versions"] else versions_by(host, program=_program(ray, name))
        return Known[NodeLogs](value=_part(context, name, ip, got, versions, ray.temp_dir), source=source)
    except KeyError as e:
        return Unknown(reason=UnknownReason.FAILED, detail=str(e), source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=f"{name}: {e.detail}", source=source)


def _program(ray: RayCluster, name: str) -> str:
    """The `ray` that would start a raylet there."""
    return next((word for word in ray.restart_raylet.get(name, ()) if PurePosixPath(word).name == "ray"), "ray")


def _log_file(node: str, x: dict[str, Any], clean: Callable[[str], str]) -> LogFile:
    got = x["lines"]
    lines = _unread(got, clean) if isinstance(got, dict) else Known(value=tuple(clean(parse.plain(line))[:500] for line in got))
    return LogFile(node=node, path=x["path"], size_bytes=x["size"], age_s=round(x["age"], 1), lines=lines)


def _unread(why: dict[str, Any], clean: Callable[[str], str]) -> Unknown:
    return Unknown(reason=UnknownReason(why["reason"]), detail=clean(why["detail"]))


def _logs(node: str, got: Any, temp_dir: str, clean: Callable[[str], str]) -> Reading[tuple[LogFile, ...]]:
    if got is None:
        return Absent(proof=f"no folder {temp_dir}/session_latest/logs on {node}, and no raylet of it runs there")
    return _unread(got, clean) if isinstance(got, dict) else Known(value=tuple(_log_file(node, x, clean) for x in got))


def _ooms(kernel: dict[str, Any], clean: Callable[[str], str]) -> Known[tuple[KernelOom, ...]] | Unknown:
    if kernel["error"]:
        return Unknown(reason=UnknownReason.FAILED, detail=clean(f"kernel log: {kernel['error']}"))
    kills = [k for k in kernel["kills"] if k["at"] is not None]
    return Known(value=tuple(KernelOom(**{**k, "at": datetime.fromtimestamp(k["at"], UTC)}) for k in kills))


def _part(context: Context, name: str, ip: str, got: dict[str, Any], versions: Versions, temp_dir: str) -> NodeLogs:
    clean = context.redactor.text
    return NodeLogs(
        node=name, ip=ip, window_s=WINDOW_S, raylet_age_s=got["raylet_age"], raylet_alive=got["raylet_alive"],
        namespace=got["namespace"], raylet_state=got["raylet_state"], raylet_halted=halted_process(context, got["raylet_halted"]),
        stopped=halted_processes(context, got["stopped"]), versions=versions,
        logs=_logs(name, got["logs"], temp_dir, clean),
        autoscaler=_log_file(name, got["autoscaler"], clean) if got["autoscaler"] else None,
        events=tuple(clean(x) for x in got["events"]),
        activity=tuple(
            WorkerActivity(node=name, pid=a["pid"], own_pid=a["own_pid"], namespace=a["namespace"], age_s=a["age"],
                           command=clean(a["command"]), cpu_s=round(a["cpu"], 2), read_bytes=a["read"], state=a["state"])
            for a in got["activity"]
        ),
        ooms=_ooms(got["kernel"], clean),
        disk_free_bytes=got["free"], gpu_use=None if got["gpu_use"] is None else tuple(got["gpu_use"]), interfaces=tuple(got["interfaces"]),
    )  # fmt: skip
