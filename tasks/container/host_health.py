"""Reads a container's host, its FUSE mounts and its other supervisors by probes. Changes nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from runbooks.container.evidence import ContainerFacts, ContainerInside, FuseMount, Supervisor
from runbooks.container.others import PROJECT, labelled
from runbooks.container.parsers.engine_error import refusal
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.host_facts import Disk, Driver, EngineUnit, HostFacts, HostPath, KernelFault, KernelOom, Upgrade
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import Host, TransportError

BY_HAND = "cat /proc/meminfo; df; df -i; ls /dev; dmesg | grep -i 'killed process'"
SYSTEM_SOURCES = ("/var/run/docker.sock", "/run/docker.sock")


class HostReadings:
    """The three readings that one probe gives."""

    def __init__(self, host: Any, ooms: Any, inside: Any) -> None:
        self.host, self.ooms, self.inside = host, ooms, inside


@diagnostic("host and inside of {it.name} · {context.target}")
def read_host(context: Context, host: Host, it: ManagedContainer, c: ContainerFacts | None) -> HostReadings:
    """Host facts, kernel kills and the container's processes."""
    source = Source(command=BY_HAND, host=host.name, taken_at=context.now())
    binds = [m.source for m in c.mounts if m.type == "bind"] if c else []
    ask = {
        "id": c.id if c else "", "disks": list(it.disks), "devices": list(c.devices) if c else [],
        "sources": [s for s in binds if s not in SYSTEM_SOURCES], "refused": list(refusal(c.error).paths) if c else [],
        "pidfile": it.daemon_pidfile,
        "socket": it.socket,
    }  # fmt: skip
    try:
        got = run_probe(host, "container_host", ask, timeout_s=25)
        return _readings(context, got, source)
    except TransportError as e:
        unknown = Unknown(reason=e.reason, detail=e.detail, source=source)
        return HostReadings(unknown, unknown, unknown)
    except ODD_ANSWER as e:
        unknown = Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}", source=source)
        return HostReadings(unknown, unknown, unknown)


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _readings(context: Context, got: dict[str, Any], source: Source) -> HostReadings:
    daemon, clock = got["daemon"], datetime.fromtimestamp(got["clock"], UTC)
    facts = HostFacts(
        boot_id=got["boot_id"], booted_at=datetime.fromtimestamp(got["booted_at"], UTC), clock_at=clock,
        shutdown_began_at=_at(got["shutdown_began"]),
        clock_ahead_s=round((clock - context.now()).total_seconds(), 1),
        memory_total_bytes=got["memory_total"], memory_available_bytes=got["memory_available"],
        disks=tuple(Disk(**d) for d in got["disks"]), shm=Disk(**got["shm"]) if got["shm"] else None,
        nvidia_devices=tuple(got["nvidia"]), accel_devices=tuple(got["accel"]),
        missing_devices=tuple(got["missing_devices"]), missing_sources=tuple(got["missing_sources"]),
        daemon_pid=daemon["pid"], daemon_started_at=_at(daemon["started_at"]), daemon_alive=daemon["alive"],
        upgrades=tuple(Upgrade(at=datetime.fromtimestamp(p["at"], UTC), package=p["package"], what=p["what"], about=p["about"])
                       for p in got["packages"]),
        places=tuple(HostPath(**p) for p in got["places"]), driver=Driver(**(got["driver"] or {})),
        engine_unit=_unit(got["unit"]), faults=tuple(KernelFault(**{**f, "at": _at(f["at"])}) for f in got["kernel"]["faults"]),
        time_jumps=tuple(got["time_jumps"]),
    )  # fmt: skip
    return HostReadings(Known[HostFacts](value=facts, source=source), _ooms(got["kernel"], source),
                        _inside(context, got["inside"], source))  # fmt: skip


def _unit(got: dict[str, Any] | None) -> EngineUnit | None:
    return EngineUnit(**{**got, "entered_at": _at(got["entered_at"]), "left_at": _at(got["left_at"])}) if got else None


def _ooms(kernel: dict[str, Any], source: Source) -> Known[tuple[KernelOom, ...]] | Unknown:
    if kernel["error"]:
        denied = "not permitted" in kernel["error"] or "ermission denied" in kernel["error"]
        return Unknown(reason=UnknownReason.DENIED if denied else UnknownReason.FAILED, detail=kernel["error"], source=source)
    kills = [k for k in kernel["kills"] if k["at"] is not None]
    found = tuple(KernelOom(**{**k, "at": datetime.fromtimestamp(k["at"], UTC)}) for k in kills)
    return Known[tuple[KernelOom, ...]](value=found, source=source)


def _inside(context: Context, inside: dict[str, Any] | None, source: Source) -> Known[ContainerInside] | Absent | Unknown:
    if inside is None:
        return Absent(proof="there is no container to look into", source=source)
    if not inside["readable"]:
        return Unknown(reason=UnknownReason.DENIED, detail="the cgroups of other users' processes", source=source)
    lines = tuple(context.redactor.text(x) for x in inside["commands"])
    return Known[ContainerInside](
        value=ContainerInside(commands=lines, pids=tuple(inside["pids"]), shm=Disk(**inside["shm"]) if inside["shm"] else None),
                         source=source)  # fmt: skip


@diagnostic("FUSE mounts · {context.target}")
def read_fuse(
    context: Context, host: Host, it: ManagedContainer, c: ContainerFacts | None, pid: int
) -> Known[tuple[FuseMount, ...]] | Unknown:
    """FUSE mounts of the host and (pid of a process inside, 0: not running) of the container."""
    source = Source(command="grep fuse /proc/mounts; stat -f MOUNT", host=host.name, taken_at=context.now())
    try:
        got = run_probe(host, "fuse_mounts", {"container": pid, "pids": [], "wait_s": 2.0}, timeout_s=40)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if got["unread"]:
        return Unknown(reason=UnknownReason.DENIED, detail=got["unread"], source=source)
    return Known[tuple[FuseMount, ...]](value=tuple(_fuse(m, it, c) for m in got["mounts"]), source=source)


def _fuse(m: dict[str, Any], it: ManagedContainer, c: ContainerFacts | None) -> FuseMount:
    binds = [x.source for x in c.mounts if x.type == "bind"] if c else []
    inside = m["where"] == "container"
    needed = inside or _below(m["path"], binds) or any(x.path == m["path"] and x.where == "host" for x in it.mounts)
    return FuseMount(path=m["path"], type=m["type"], where=m["where"], state=m["state"], error=m["error"],
                     server_pid=m["server"], wanted=needed)  # fmt: skip


def _below(mount: str, sources: Sequence[str]) -> bool:
    top = mount.rstrip("/") + "/"
    return any(s == mount or s.startswith(top) or mount.startswith(s.rstrip("/") + "/") for s in sources)


def _ask_about(it: ManagedContainer, c: ContainerFacts | None) -> dict[str, Any]:
    """By what a supervisor may speak of it: name, id, its Compose project, the unit that Podman wrote down."""
    labels = c.labels if c else {}
    project, files = labels.get(PROJECT, ""), labels.get(f"{PROJECT}.config_files", "")
    compose = {"project": project, "dir": labels.get(f"{PROJECT}.working_dir", ""), "files": [f for f in files.split(",") if f]}
    return {"name": it.name, "id": c.id if c else "", "compose": compose if project else None,
            "unit": labels.get("PODMAN_SYSTEMD_UNIT", "")}  # fmt: skip


@diagnostic("what restarts {it.name} · {context.target}")
def read_supervisors(
    context: Context, host: Host, it: ManagedContainer, c: ContainerFacts | None
) -> Known[tuple[Supervisor, ...]] | Unknown:
    """Retry loops, systemd units, the orchestrator's labels and the restart policy: who else restarts it."""
    source = Source(command=f"ps -ef | grep {it.name}; systemctl cat '*'", host=host.name, taken_at=context.now())
    try:
        got = run_probe(host, "supervisors", _ask_about(it, c), timeout_s=20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    found = [Supervisor(**{**s, "command": context.redactor.text(s["command"])}) for s in got["found"]]
    found += labelled(c.labels) if c else ()
    return Known[tuple[Supervisor, ...]](value=tuple(found), source=source)
