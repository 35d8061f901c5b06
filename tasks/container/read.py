"""Gathers everything about one container: the engine, the host, what runs inside, the cluster. Reads only."""

import time
from concurrent.futures import Future
from typing import Any

from runbooks.container.evidence import AppProbe, ContainerFacts, ContainerInside, Evidence, WantedContainer
from runbooks.core.config import ConfigError
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Node
from runbooks.core.reading import Absent, Known, Source, Unknown
from tasks.clients.ray_dashboard import read_ray
from tasks.container.at_work import read_work
from tasks.container.docker import (
    event_window,
    list_names,
    read_container,
    read_daemon,
    read_events,
    read_log,
    read_siblings,
    with_usage,
)
from tasks.container.host_health import read_fuse, read_host, read_supervisors
from tasks.container.watch_record import read_before
from tasks.context import Context
from tasks.diagnostic import ReaderPool, diagnostic
from tasks.transport.base import Host, TransportError

DENIED = 'for d do if (: <"$d") 2>/dev/null; then :; else echo "$d"; fi; done\n'
LOW_TENTHS = 2  # free parts of ten below which it is asked what the engine's own things take


def parts_of_node(context: Context) -> tuple[dict[str, Any], ...]:
    """The containers that a run on the node can be about: the one that was asked for, else the fleet file's, else all that
    its engine has. Raises ConfigError where there is none."""
    if context.options.get("container"):
        return (context.options,)
    names = [c.name for c in context.fleet.containers_on(context.target)] or list(_names(context))
    return tuple(context.options | {"container": name} for name in names)


def _names(context: Context) -> tuple[str, ...]:
    """Names of every container of the node's Docker, running or not."""
    plain = ManagedContainer(name="unknown", node=context.target)
    found = list_names(context, context.open_host(context.node), plain)
    if isinstance(found, Known) and found.value:
        return found.value
    why = "Docker has none there" if isinstance(found, Known) else found.proof if isinstance(found, Absent) else found.detail
    raise ConfigError(
        f"which container of {context.target}? The fleet file's `containers` name none there, and {why}: give --option container=NAME"
    )


def subject(context: Context) -> ManagedContainer:
    """The container that this run is about, as the fleet file has it: the option `container`, or the node's only one."""
    name = context.options.get("container")
    found = [c for c in context.fleet.containers_on(context.target) if name in (None, c.name)]
    return found[0] if found else ManagedContainer(name=str(name), node=context.target)


def gather_container_death(context: Context) -> Evidence:
    """Host, container and application of one container."""
    it, node = subject(context), context.node
    try:
        host = context.host
    except TransportError as e:
        return _unreachable(context, it, node, e)
    first = read_container(context, host, it)
    if isinstance(first, Unknown) and (silence := _silent(host)):
        return _unreachable(context, it, node, silence)
    c = first.value if isinstance(first, Known) else None
    readings = _readings(context, host, it, c)
    blind = isinstance(readings["daemon"], Unknown) and isinstance(readings["host"], Unknown)
    if blind and (silence := _silent(host)):
        return _unreachable(context, it, node, silence)
    configured = any(x.name == it.name for x in context.fleet.containers_on(node.name))
    return Evidence(
        node=node.name, name=it.name, taken_at=context.now(), container=first, hands_off=node.hands_off,
        wanted=_wanted(it) if configured or c else None,
        before=read_before(node.name, it.name, context.now(), context.limit("deaths_window_s", "container-death")), **readings,
        remove_kept=str(context.options.get("remove_kept", "")).lower() in ("yes", "true", "1"),
    )  # fmt: skip


def _silent(host: Host) -> TransportError | None:
    """Why the node runs no command at all: then nothing is known of its engine, whose silence would look the same."""
    try:
        host.run(("true",), timeout_s=8)
    except TransportError as e:
        return e
    return None


def _readings(context: Context, host: Host, it: ManagedContainer, c: ContainerFacts | None) -> dict[str, Any]:
    """The other readings, side by side; what needs the processes inside comes after them."""
    since, until = event_window(context.now(), c.finished_at if c else None, context.limit("deaths_window_s", "container-death"))
    none = Absent(proof="there is no container to ask about")
    runs = c is not None and c.status in ("running", "paused", "restarting")
    with ReaderPool(max_workers=10) as pool:
        health = pool.submit(read_host, context, host, it, c)
        later: dict[str, Future[Any]] = {
            "siblings": pool.submit(read_siblings, context, host, it, c.id if c else ""),
            "events": pool.submit(read_events, context, host, it, since, until),
            "daemon": pool.submit(read_daemon, context, host, it),
            "supervisors": pool.submit(read_supervisors, context, host, it, c),
            "both": pool.submit(read_ray, context, it, host, c.id if c and c.status == "running" else ""),
        }  # fmt: skip
        if c:
            later["log"] = pool.submit(read_log, context, host, it, c.id)
            later["probe"] = pool.submit(read_probe, context, host, it, c)
        if not runs:
            later["fuse"] = pool.submit(read_fuse, context, host, it, c, 0)
        found = health.result()
        inside = _with_devices(host, it, c, found.inside)
        pid = inside.value.pids[0] if isinstance(inside, Known) and inside.value.pids else 0
        if runs:
            later["fuse"] = pool.submit(read_fuse, context, host, it, c, pid)
        done: dict[str, Any] = {name: future.result() for name, future in later.items()}
        done["ray"], done["ray_head"] = done.pop("both")
    if runs or _disk_low(found.host):  # not while a dead container waits: it takes seconds where there are many layers
        done["daemon"] = with_usage(context, host, it, done["daemon"])
    work = read_work(context, host, it, c)  # last: what the other readings run inside is not at work in it
    return {"log": none, "probe": none, **done, "host": found.host, "ooms": found.ooms, "inside": inside, "work": work}


def _disk_low(host: Any) -> bool:
    disks = host.value.disks if isinstance(host, Known) else ()
    return any(d.free_bytes * 10 < d.size_bytes * LOW_TENTHS for d in disks)


def _with_devices(host: Host, it: ManagedContainer, c: ContainerFacts | None, inside: Any) -> Any:
    """Add the devices that the running container cannot open; only asked where it has any."""
    if c is None or c.status != "running" or not c.devices or not isinstance(inside, Known):
        return inside
    argv = (*it.engine, "exec", "-i", c.id, "sh", "-s", "--", *c.devices)
    try:
        done = host.run(argv, stdin=DENIED, timeout_s=10)
    except TransportError:
        return inside
    lost = tuple(line for line in done.out.splitlines() if line in c.devices) if done.exit == 0 else ()
    return Known[ContainerInside](value=inside.value.model_copy(update={"devices_denied": lost}), source=inside.source)


@diagnostic("own probe of {it.name} · {context.target}")
def read_probe(
    context: Context, host: Host, it: ManagedContainer, c: ContainerFacts
) -> Known[AppProbe] | Absent | Unknown:
    """The configured question to the application; asked a second time when the first answer is bad."""
    if not it.probe or c.status != "running":
        return Absent(proof="no probe is configured" if not it.probe else "the container does not run")
    answer = _probe_once(context, host, it, c)
    if isinstance(answer, Known) and answer.value.exit != 0:
        context.sleep(0.5)
        answer = _probe_once(context, host, it, c)
    return answer


def _probe_once(context: Context, host: Host, it: ManagedContainer, c: ContainerFacts) -> Known[AppProbe] | Unknown:
    argv = ("timeout", "-k", "1", f"{it.probe_timeout_s:g}", *it.engine, "exec", c.id, *it.probe)
    source = Source(command=" ".join(argv), host=host.name, taken_at=context.now())
    began = time.monotonic()
    try:
        done = host.run(argv, timeout_s=it.probe_timeout_s + 5)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    lines = context.redactor.text(done.out + done.err).strip().splitlines()
    code = None if done.exit == 124 else done.exit
    value = AppProbe(exit=code, seconds=round(time.monotonic() - began, 2), last_line=lines[-1][:300] if lines else "")
    return Known[AppProbe](value=value, source=source)


def _wanted(it: ManagedContainer) -> WantedContainer:
    return WantedContainer(
        engine=it.engine, socket=it.socket, setup=it.setup, setup_timeout_s=it.setup_timeout_s,
        mounts=tuple((m.path, m.where.value, m.mount) for m in it.mounts), start=it.start,
        start_detached=it.start_detached, match=it.match, ray_ip=it.ray_ip, daemon_start=it.daemon_start,
        daemon_pidfile=it.daemon_pidfile,
    )  # fmt: skip


def _unreachable(context: Context, it: ManagedContainer, node: Node, error: TransportError) -> Evidence:
    why = Unknown(reason=error.reason, detail=error.detail)
    names = ("container", "siblings", "log", "events", "host", "ooms", "fuse", "supervisors", "inside", "probe", "ray", "ray_head", "work")
    fields: dict[str, Any] = dict.fromkeys(names, why)
    before = read_before(node.name, it.name, context.now(), context.limit("deaths_window_s", "container-death"))
    return Evidence(
        node=node.name, name=it.name, taken_at=context.now(), wanted=_wanted(it), before=before, **fields
    )  # fmt: skip
