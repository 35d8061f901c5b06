"""The container engine's JSON (inspect, ps, events, version, images, system df) and its error lines, as types."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from runbooks.container.evidence import ContainerFacts, EngineEvent, HealthCheck, MountPoint, Sibling
from runbooks.core.reading import Absent, Unknown, UnknownReason
from runbooks.parsers.fields import given, listed

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z")
_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
POD_NAME, POD_ROLE = "io.kubernetes.pod.name", "io.kubernetes.container.name"
Clean = Callable[[str], str]


def parse_time(text: str | None) -> datetime | None:
    """The engine's RFC 3339 with nanoseconds; its zero time (year 1) is None."""
    found = _TIME.match(text or "")
    if found is None or found[1].startswith("0001-"):
        return None
    micro = (found[2] or "0")[:6].ljust(6, "0")
    zone = "+00:00" if found[3] == "Z" else found[3]
    return datetime.fromisoformat(f"{found[1]}.{micro}{zone}").astimezone(UTC)


def parse_inspect(text: str, clean: Clean) -> tuple[ContainerFacts, ...]:
    """Output of `inspect --type container`. Raises one of ODD_ANSWER. `clean` takes secrets out of free text."""
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(x, dict) and "State" in x for x in found):
        raise ValueError("expected a list of containers")
    return tuple(_container(x, clean) for x in found)


def _moment(x: Mapping[str, Any], name: str) -> datetime | None:
    """A time that every engine gives; None is only its zero time, which means never."""
    text = given(x, name, str)
    if _TIME.match(text) is None:
        raise ValueError(f"{name} is {text!r:.80}, which is no time")
    return parse_time(text)


def _container(x: Mapping[str, Any], clean: Clean) -> ContainerFacts:
    state, config, host = x["State"], given(x, "Config", dict), given(x, "HostConfig", dict)
    health = state.get("Health") or state.get("Healthcheck") or {}  # Podman's name up to 4.0
    policy = given(host, "RestartPolicy", dict)
    return ContainerFacts(
        id=given(x, "Id", str),
        name=given(x, "Name", str).lstrip("/"),
        status=given(state, "Status", str),
        exit_code=given(state, "ExitCode", int),
        oom_killed=given(state, "OOMKilled", bool),
        error=clean(state.get("Error") or ""),
        created_at=_moment(x, "Created"),
        started_at=_moment(state, "StartedAt"),
        finished_at=_moment(state, "FinishedAt"),
        pid=given(state, "Pid", int),
        restart_count=x.get("RestartCount") or 0,
        restart_policy=given(policy, "Name", str) or "no",  # Podman up to 4 writes ""
        restart_max=policy.get("MaximumRetryCount") or 0,
        auto_remove=given(host, "AutoRemove", bool),
        entrypoint=tuple(clean(w) for w in _words(config.get("Entrypoint"))),
        command=tuple(clean(w) for w in _words(config.get("Cmd"))),
        image=config.get("Image") or "",
        image_id=x.get("Image") or "",
        mounts=tuple(_mount(m) for m in listed(x, "Mounts")),
        devices=tuple(d["PathOnHost"] for d in listed(host, "Devices")),
        gpu_requests=len(listed(host, "DeviceRequests")),
        privileged=given(host, "Privileged", bool),
        network_mode=host.get("NetworkMode") or "",
        shm_bytes=host.get("ShmSize") or 0,
        memory_limit_bytes=host.get("Memory") or 0,
        labels={k: clean(v) for k, v in (config.get("Labels") or {}).items()},
        env_names=tuple(sorted(e.split("=", 1)[0] for e in listed(config, "Env"))),
        health=health.get("Status") or "none",
        health_streak=health.get("FailingStreak") or 0,
        health_log=tuple(_check(h, clean) for h in listed(health, "Log")[-5:]),
    )


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):  # Podman gives the entrypoint as text
        return tuple(value.split())
    return tuple(value or ())


def _mount(m: Mapping[str, Any]) -> MountPoint:
    return MountPoint(
        type=m.get("Type", ""),
        source=m.get("Source", ""),
        destination=m.get("Destination", ""),
        name=m.get("Name", "") or "",
        rw=given(m, "RW", bool),
        propagation=m.get("Propagation", "") or "",
    )


def _check(h: Mapping[str, Any], clean: Clean) -> HealthCheck:
    lines = [line for line in (h.get("Output") or "").splitlines() if line.strip()]
    return HealthCheck(
        exit=given(h, "ExitCode", int),
        ended_at=parse_time(h.get("End")),
        output=clean(lines[-1][:300]) if lines else "",
    )


def siblings_of(found: tuple[ContainerFacts, ...], but: str) -> tuple[Sibling, ...]:
    """All containers but the one with the id `but`, in short."""
    return tuple(
        Sibling(
            id=c.id, name=c.name, status=c.status, exit_code=c.exit_code, started_at=c.started_at,
            finished_at=c.finished_at, restart_policy=c.restart_policy, oom_killed=c.oom_killed,
            pod=c.labels.get(POD_NAME, ""), role=c.labels.get(POD_ROLE, ""),
        )
        for c in found
        if c.id != but
    )  # fmt: skip


def parse_events(text: str) -> tuple[EngineEvent, ...]:
    """Output of `events --format '{{json .}}'`: one object a line, Docker's and Podman's spelling. Raises one of ODD_ANSWER."""
    return tuple(_event(json.loads(line)) for line in text.splitlines() if line.strip())


def _event(x: Mapping[str, Any]) -> EngineEvent:
    attributes = (x.get("Actor") or {}).get("Attributes") or x.get("Attributes") or {}
    code = attributes.get("exitCode", attributes.get("containerExitCode", x.get("ContainerExitCode")))
    action = x.get("Action") or x.get("status") or given(x, "Status", str)
    return EngineEvent(
        at=_happened(x),
        action="die" if action == "died" else action,  # Podman's own word for it
        id=(x.get("Actor") or {}).get("ID") or x.get("id") or x.get("ID") or "",
        name=attributes.get("name") or x.get("Name") or "",
        exit_code=int(code) if code not in (None, "") else None,
        signal=str(attributes.get("signal") or ""),
    )


def _happened(x: Mapping[str, Any]) -> datetime:
    """When: Docker's nanoseconds or seconds since 1970, Podman's RFC 3339."""
    if "Time" in x and (at := _moment(x, "Time")):
        return at
    return datetime.fromtimestamp(given(x, "timeNano", int) / 1e9 if "timeNano" in x else given(x, "time", int), UTC)


def parse_size(text: str) -> int | None:
    """`1.5GB (80%)` as the engine's `system df` prints it, in bytes; None if it is not a size."""
    found = re.match(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?B)", text)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None


def parse_df(text: str) -> dict[str, int]:
    """Output of `system df --format '{{json .}}'`: reclaimable bytes by type (Images, Build Cache …)."""
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    sizes = {row["Type"]: row["Reclaimable"] for row in rows}  # Podman by itself gives bytes
    found = {name: size if isinstance(size, int) else parse_size(size) for name, size in sizes.items()}
    return {name: size for name, size in found.items() if size is not None}


def parse_version(text: str) -> tuple[str, bool]:
    """Output of `version --format '{{json .}}'`: the engine's version, and whether it is Podman."""
    found = json.loads(text)
    client, server = found.get("Client") or {}, found.get("Server") or {}
    if not server and "OsArch" in client:
        server = client  # Podman without a service: the client is the engine
    parts = " ".join(str(c.get("Name", "")) for c in listed(server, "Components"))
    return given(server, "Version", str), "podman" in parts.lower() or "OsArch" in server


def parse_log(text: str, clean: Clean, keep: int = 40) -> tuple[str, ...]:
    """The last lines of `logs`, secrets and control characters taken out."""
    lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f]", "", line) for line in text.splitlines()]
    return tuple(clean(line)[:500] for line in lines if line.strip())[-keep:]


def engine_failure(err: str) -> Absent | Unknown:
    """What a failed engine command means: no such container (proof), daemon not there, not allowed, or just failed."""
    line = " ".join(err.split())[:400]
    low = line.lower()
    if "no such container" in low or "no such object" in low:
        return Absent(proof=line)
    if "permission denied" in low:
        return Unknown(reason=UnknownReason.DENIED, detail=line)
    if (
        "cannot connect to the docker daemon" in low
        or "connection refused" in low
        or "is the docker daemon running" in low
    ):
        return Unknown(reason=UnknownReason.UNREACHABLE, detail=line)
    return Unknown(reason=UnknownReason.FAILED, detail=line or "it said nothing")
