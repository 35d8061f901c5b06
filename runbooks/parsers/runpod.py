"""Pods as RunPod's three surfaces describe them (REST v1, REST v2, GraphQL) into one type. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from runbooks.core.base import Frozen
from runbooks.triage.text import meanings


class Phase(StrEnum):
    """What the provider says that the pod should be or is."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    ERROR = "error"
    TERMINATED = "terminated"
    UNKNOWN = "unknown"


class StoppedBy(StrEnum):
    """Who stopped it."""

    NONE = ""
    USER = "by user"
    PROVIDER = "by provider"
    OUTBID = "outbid"
    CREDIT = "out of credit"


class Runtime(StrEnum):
    """Whether a container runs. Null means no container yet, or that a 2 s look-up failed: never a death."""

    THERE = "there"
    NULL = "null"
    NOT_GIVEN = "not given"  # this surface has no such field


class Pod(Frozen):
    """A pod. What a surface does not say keeps its default."""

    id: str
    name: str = ""
    phase: Phase = Phase.UNKNOWN
    status: str = ""  # the provider's own word
    runtime: Runtime = Runtime.NOT_GIVEN
    uptime_s: float | None = None
    gpus: int | None = None
    gpus_wanted: int | None = None
    ip: str = ""
    ssh_port: int | None = None
    wants_ssh: bool | None = None  # port 22/tcp is asked for
    last_change: str = ""
    stop: StoppedBy = StoppedBy.NONE
    terminated: bool = False
    locked: bool = False
    interruptible: bool = False
    cost_per_hour: float | None = None
    image: str = ""
    machine_id: str = ""
    network_volume: bool = False
    disk_gb: float | None = None  # dies with the pod
    created_at: datetime | None = None
    started_at: datetime | None = None


_PHASES = {
    "CREATED": Phase.STARTING, "PROVISIONING": Phase.STARTING, "STARTING": Phase.STARTING, "RESTARTING": Phase.STARTING,
    "RUNNING": Phase.RUNNING, "EXITED": Phase.EXITED, "PAUSED": Phase.EXITED, "DEAD": Phase.ERROR, "ERROR": Phase.ERROR,
    "TERMINATED": Phase.TERMINATED,
}  # fmt: skip


def parse_pod(data: Any) -> Pod:
    """One pod of any surface. Raises ValueError, KeyError, TypeError when it is none."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        raise ValueError("no pod: it has no id")
    return _v2(data) if "status" in data and "desiredStatus" not in data else _v1(data)


def parse_pods(data: Any) -> tuple[Pod, ...]:
    """A listing: a list, {"pods": […]}, {"data": {"myself": {"pods": […]}}}."""
    if isinstance(data, dict) and "data" in data:
        data = ((data["data"] or {}).get("myself") or {}).get("pods")
    if isinstance(data, dict):
        data = data.get("pods", data.get("items"))
    if not isinstance(data, list):
        raise ValueError("no list of pods")
    return tuple(parse_pod(p) for p in data)


def _v1(d: dict[str, Any]) -> Pod:
    """REST v1 and GraphQL: both say desiredStatus."""
    status, change = str(d.get("desiredStatus") or ""), str(d.get("lastStatusChange") or "")
    runtime, ip, port, uptime = _runtime(d)
    mapped = d.get("portMappings") or {}
    stop, gone = _stop(change, status)
    exited = status in ("EXITED", "TERMINATED")
    gpu = d.get("gpu") if isinstance(d.get("gpu"), dict) else {}
    live = d.get("runtime") or {}
    return Pod(
        id=d["id"], name=str(d.get("name") or ""), status=status, phase=_PHASES.get(status, Phase.UNKNOWN),
        runtime=runtime, uptime_s=uptime,
        gpus=len(live["gpus"]) if isinstance(live.get("gpus"), list) else None,
        gpus_wanted=_int(d.get("gpuCount", (gpu or {}).get("count"))),
        ip="" if exited else ip or str(d.get("publicIp") or ""),
        ssh_port=None if exited else port or _int(mapped.get("22")),
        wants_ssh=_wants(d.get("ports")), last_change=change, stop=stop, terminated=gone,
        locked=bool(d.get("locked")), interruptible=bool(d.get("interruptible")) or d.get("podType") == "INTERRUPTABLE",
        cost_per_hour=_float(d.get("adjustedCostPerHr", d.get("costPerHr"))),
        image=str(d.get("image") or d.get("imageName") or ""), machine_id=str(d.get("machineId") or ""),
        network_volume=bool(d.get("networkVolumeId") or d.get("networkVolume")),
        disk_gb=(_float(d.get("containerDiskInGb")) or 0) + (_float(d.get("volumeInGb")) or 0) or None,
        created_at=_time(d.get("createdAt")), started_at=_time(d.get("lastStartedAt")),
    )  # fmt: skip


def _v2(d: dict[str, Any]) -> Pod:
    status = str(d.get("status") or "")
    runtime, ip, port, uptime = _runtime(d)
    live = d.get("runtime") or {}
    stop, gone = _stop(str(d.get("lastStatusChange") or ""), status)
    return Pod(
        id=d["id"], name=str(d.get("name") or ""), status=status, phase=_PHASES.get(status, Phase.UNKNOWN),
        runtime=runtime if status == "RUNNING" else Runtime.NULL, uptime_s=uptime, ip=ip, ssh_port=port, stop=stop,
        gpus=len(live["gpus"]) if isinstance(live.get("gpus"), list) else None, terminated=gone,
        locked=bool(d.get("locked")), cost_per_hour=_float(d.get("cost")), image=str(d.get("image") or ""),
        created_at=_time(d.get("createdAt")), started_at=_time(d.get("startedAt")),
    )  # fmt: skip


def _runtime(d: dict[str, Any]) -> tuple[Runtime, str, int | None, float | None]:
    """(there or not, public address, port of 22, uptime)."""
    if "runtime" not in d:
        return Runtime.NOT_GIVEN, "", None, None
    live = d["runtime"]
    if not isinstance(live, dict):
        return Runtime.NULL, "", None, None
    up = _float(live.get("uptimeInSeconds", live.get("uptime")))
    for p in live.get("ports") or ():
        if p.get("privatePort", p.get("private")) == 22 and p.get("isIpPublic", True):
            return Runtime.THERE, str(p.get("ip") or ""), _int(p.get("publicPort", p.get("public"))), up
    return Runtime.THERE, "", None, up


_PORT = re.compile(r"\d+(?:-\d+)?/[A-Za-z]+")
_STOPS: dict[str, tuple[str, ...]] = {
    StoppedBy.OUTBID: ("stuck-spawning/outbid",),
    StoppedBy.CREDIT: ("stuck-spawning/out-of-credit",),
    StoppedBy.USER: ("stuck-spawning/pod-stopped-by-user",),
    StoppedBy.PROVIDER: ("stuck-spawning/pod-stopped-by-provider",),
}  # in this order: a pod that the provider stops for want of credit is out of credit


def _stop(change: str, status: str) -> tuple[StoppedBy, bool]:
    """Who stopped it and whether it is terminated, from the free text of the last change."""
    gone = status == "TERMINATED" or change.lower().startswith("terminated")
    return StoppedBy(next(iter(meanings(change, _STOPS)), "")), gone


def _wants(ports: Any) -> bool | None:
    """Whether port 22 is among what is asked for, a list or text with commas; None where that cannot be read."""
    named = [p.strip() for p in ports.split(",") if p.strip()] if isinstance(ports, str) else ports
    if not isinstance(named, list) or not all(isinstance(p, str) and _PORT.fullmatch(p) for p in named):
        return None
    return "22/tcp" in (p.lower() for p in named)


def _int(x: Any) -> int | None:
    return int(x) if isinstance(x, int | str) and str(x).isdecimal() else None


def _float(x: Any) -> float | None:
    try:
        return float(x) if x is not None else None
    except (TypeError, ValueError):
        return None


def _time(x: Any) -> datetime | None:
    if not isinstance(x, str) or not x:
        return None
    text = re.sub(r" \+0000 UTC$", "+00:00", x.strip()).replace("Z", "+00:00")
    try:
        at = datetime.fromisoformat(re.sub(r"\.(\d{6})\d+", r".\1", text))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def merge(first: Pod, second: Pod | None) -> Pod:
    """What the first says, completed with what only the second knows (runtime, ports, GPUs)."""
    if second is None:
        return first
    own = first.model_dump()
    empty = {k for k, v in own.items() if v in (None, "", False, Runtime.NOT_GIVEN, Phase.UNKNOWN)}
    stale = ("ip", "ssh_port") if first.phase in (Phase.EXITED, Phase.TERMINATED, Phase.ERROR) else ()
    more = {k: v for k, v in second.model_dump().items() if k in empty and k not in stale}
    return Pod.model_validate(own | more)


class LogEvent(StrEnum):
    """How far a pod came, by a line of its system log. What went wrong is judged by the knowledge base."""

    PULLING = "pulling"
    STARTED = "started"


_LOG: tuple[tuple[LogEvent, str], ...] = (
    (LogEvent.PULLING, r"Downloading|Extracting|fetching image|Pulling (?:from|fs layer)|Verifying Checksum|Waiting$"),
    (LogEvent.STARTED, r"start container"),
)
_LOG_RE = tuple((said, re.compile(p)) for said, p in _LOG)


_SIZE = re.compile(r"/\s*([\d.]+)\s*([kMG])B")
_UNIT = {"k": 1e-6, "M": 1e-3, "G": 1.0}


def layer_gb(line: str) -> tuple[str, float] | None:
    """(name of the layer, its size in GB) where a pull's progress shows it: `c7de18f1cb15 Downloading 4.8MB/9.2GB`."""
    found = _SIZE.search(line)
    if not found:
        return None
    return (re.findall(r"\b[0-9a-f]{12}\b", line) or [line[:30]])[0], float(found[1]) * _UNIT[found[2]]


def read_log_line(line: str) -> LogEvent | None:
    """How far the line says that it came; None: it is about something else."""
    return next((said for said, pattern in _LOG_RE if pattern.search(line)), None)


def last_phase(lines: Sequence[str]) -> tuple[LogEvent | None, str]:
    """How far the log says that the pod came, and the line that says so."""
    told = [(said, line) for line in lines if (said := read_log_line(line))]
    return told[-1] if told else (None, "")
