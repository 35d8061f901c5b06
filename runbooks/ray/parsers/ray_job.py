"""Ray's dashboard JSON about jobs, actors, placement groups and resources, as the ray-job runbook's types."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from runbooks.parsers.fields import given, listed
from runbooks.parsers.ray import from_ms, rows
from runbooks.ray.evidence import Actor, PlacementGroup, RayJob, Usage

Clean = Callable[[str], str]
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def plain(text: str) -> str:
    """Without colours."""
    return ANSI.sub("", text)


def parse_jobs(text: str, clean: Clean) -> tuple[RayJob, ...]:
    """`/api/jobs/`: submitted ones and bare drivers. Raises one of ODD_ANSWER, as all of these do."""
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("expected a list of jobs")
    return tuple(_job(x, clean) for x in found)


def _job(x: Mapping[str, Any], clean: Clean) -> RayJob:
    resources = dict(x.get("entrypoint_resources") or {})
    for key, name in (("entrypoint_num_cpus", "CPU"), ("entrypoint_num_gpus", "GPU"), ("entrypoint_memory", "memory")):
        if x.get(key):
            resources[name] = x[key]
    code = x.get("driver_exit_code")
    return RayJob(
        submission_id=x.get("submission_id") or "",
        job_id=(x["job_id"] or "") if "job_id" in x else None,
        status=x["status"],
        error_type=x.get("error_type") or "",
        message=clean(plain(x.get("message") or ""))[-6000:],
        entrypoint=clean(x.get("entrypoint") or "")[:500],
        exit_code=code if isinstance(code, int) else None,
        started_at=from_ms(x.get("start_time")),
        ended_at=from_ms(x.get("end_time")),
        resources={k: float(v) for k, v in resources.items()},
    )


def parse_logs(text: str, clean: Clean, keep: int = 200) -> tuple[str, ...]:
    """`/api/jobs/<id>/logs`: the last lines."""
    lines = plain(given(json.loads(text), "logs", str)).splitlines()
    return tuple(clean(line)[:500] for line in lines[-keep:] if line.strip())


def parse_actors(text: str, clean: Clean) -> tuple[Actor, ...]:
    """`/api/v0/actors?detail=1`."""
    return tuple(_actor(x, clean) for x in rows(text)[0])


def _actor(x: Mapping[str, Any], clean: Clean) -> Actor:
    reason, message, ip = _death(x.get("death_cause") or {})
    found = re.search(r"\bip=([0-9a-fA-F.:]+)", message)
    return Actor(
        actor_id=x["actor_id"],
        class_name=x.get("class_name") or "",
        name=x.get("name") or "",
        state=x["state"],
        job_id=x.get("job_id") or "",
        pid=int(x.get("pid") or 0) or None,
        node_id=x.get("node_id") or "",
        ip=ip or (found[1] if found else ""),
        death_reason=reason,
        death_message=clean(plain(message))[-3000:],
        resources={k: float(v) for k, v in (x.get("required_resources") or {}).items()},
        ended_at=from_ms(x.get("end_time_ms")),
    )


def _death(cause: Mapping[str, Any]) -> tuple[str, str, str]:
    """Reason, message and address of a death record; the kinds differ in their fields."""
    for kind, context in cause.items():
        if isinstance(context, Mapping):
            reason = str(context.get("reason") or kind.removesuffix("_context").upper())
            text = context.get("error_message") or context.get("formatted_exception_string") or ""
            return reason, str(text), str(context.get("node_ip_address") or "")
    return "", "", ""


def parse_groups(text: str) -> tuple[PlacementGroup, ...]:
    """`/api/v0/placement_groups?detail=1`."""
    return tuple(
        PlacementGroup(
            id=x["placement_group_id"],
            name=x.get("name") or "",
            state=x["state"],
            job_id=x.get("creator_job_id") or "",
            bundles=tuple(_bundle(b) for b in listed(x, "bundles")),
        )
        for x in rows(text)[0]
    )


def _bundle(x: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in (x.get("unit_resources") or {}).items()}


def parse_usage(text: str) -> Usage:
    """`/api/cluster_status`: used and total by resource. Raises KeyError while the monitor has not reported."""
    status = json.loads(text)["data"]["clusterStatus"]
    report = status["loadMetricsReport"]
    usage = {k: (float(used), float(total)) for k, (used, total) in report["usage"].items() if not k.startswith("node:")}
    if not usage:
        raise ValueError("the report names no resource")
    demands = [*listed(report, "resourceDemand"), *listed(report, "pgDemand")]
    scaler = status.get("autoscalerReport") or {}
    coming = [*(scaler.get("pendingNodes") or ()), *(scaler.get("pendingLaunches") or ())]
    words = tuple(json.dumps(c)[:100] for c in coming[:20])
    return Usage(usage=usage, demands=tuple(json.dumps(d)[:1000] for d in demands[:20]), coming=words)
