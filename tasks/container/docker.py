"""Reads a container engine on a node by its own client: container, others, log, events, daemon. Changes nothing."""

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from runbooks.container.evidence import ContainerFacts, Daemon, EngineEvent, Sibling
from runbooks.container.parsers import docker as parse
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.transport.base import Host, TransportError

T = TypeVar("T")
LIMIT_BYTES = 8 << 20


def ask(
    context: Context, host: Host, argv: Sequence[str], parser: Callable[[str], T], timeout_s: float = 15
) -> Known[T] | Absent | Unknown:
    """One engine command as a reading: its own refusals, time-outs and odd answers stay apart."""
    source = Source(command=shlex.join(argv), host=host.name, taken_at=context.now())
    try:
        done = host.run(argv, timeout_s=timeout_s, limit_bytes=LIMIT_BYTES)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if done.exit != 0:
        failed = parse.engine_failure(context.redactor.text(done.err or done.out))
        return failed.model_copy(update={"source": source})
    if done.truncated:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="the output was cut", source=source)
    try:
        return Known(value=parser(done.out), source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=context.redactor.text(f"{type(e).__name__}: {e}")[:300], source=source)


@diagnostic("docker inspect {it.name} · {context.target}")
def read_container(context: Context, host: Host, it: ManagedContainer) -> Known[ContainerFacts] | Absent | Unknown:
    """The container of that name. Absent: the engine says that there is none."""
    argv = (*it.engine, "inspect", "--type", "container", it.name)

    def one(text: str) -> ContainerFacts:
        found = [c for c in parse.parse_inspect(text, context.redactor.text) if c.name == it.name]
        if len(found) != 1:
            raise ValueError(f"{len(found)} containers have the name {it.name}")
        return found[0]

    return ask(context, host, argv, one)


def list_names(context: Context, host: Host, it: ManagedContainer) -> Known[tuple[str, ...]] | Absent | Unknown:
    """Names of every container of the engine, running or not, sorted (at most 200)."""
    argv = (*it.engine, "ps", "-a", "--last", "200", "--format", "{{.Names}}")
    return ask(context, host, argv, lambda text: tuple(sorted(text.split())))


@diagnostic("other containers · {context.target}")
def read_siblings(
    context: Context, host: Host, it: ManagedContainer, own_id: str
) -> Known[tuple[Sibling, ...]] | Absent | Unknown:
    """All other containers of the engine, running or not (at most 200)."""
    ids = ask(context, host, (*it.engine, "ps", "-aq", "--no-trunc", "--last", "200"), str.split)
    if not isinstance(ids, Known):
        return ids
    others = [i for i in ids.value if i != own_id]
    if not others:
        return Known[tuple[Sibling, ...]](value=(), source=ids.source)
    argv = (*it.engine, "inspect", "--type", "container", *others)
    clean = context.redactor.text
    return ask(context, host, argv, lambda text: parse.siblings_of(parse.parse_inspect(text, clean), own_id))


@diagnostic("last lines of {it.name} · {context.target}")
def read_log(
    context: Context, host: Host, it: ManagedContainer, own_id: str
) -> Known[tuple[str, ...]] | Absent | Unknown:
    """The container's last lines, both streams."""
    argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", *it.engine, "logs", "--tail", "40", own_id)
    return ask(context, host, argv, lambda text: parse.parse_log(text, context.redactor.text))


@diagnostic("Docker events · {context.target}")
def read_events(
    context: Context, host: Host, it: ManagedContainer, since: datetime, until: datetime
) -> Known[tuple[EngineEvent, ...]] | Absent | Unknown:
    """The engine's container events between two times (it keeps only its latest, since its start)."""
    wanted = (
        "create",
        "start",
        "restart",
        "die",
        "kill",
        "stop",
        "oom",
        "destroy",
        "pause",
        "unpause",
        "health_status",
    )
    argv = [*it.engine, "events", "--since", f"{since.timestamp():.3f}", "--until", f"{until.timestamp():.3f}"]
    argv += ["--filter", "type=container", "--format", "{{json .}}"]
    argv += [word for name in wanted for word in ("--filter", f"event={name}")]
    return ask(context, host, argv, parse.parse_events, timeout_s=10)


@diagnostic("Docker daemon · {context.target}")
def read_daemon(context: Context, host: Host, it: ManagedContainer) -> Known[Daemon] | Absent | Unknown:
    """Version, and images by id."""
    version = ask(context, host, (*it.engine, "version", "--format", "{{json .}}"), parse.parse_version, timeout_s=8)
    if not isinstance(version, Known):
        return version
    images = ask(context, host, (*it.engine, "images", "-aq", "--no-trunc"), lambda t: tuple(sorted(set(t.split()))))
    number, podman = version.value
    ids = images.value if isinstance(images, Known) else ()
    value = Daemon(version=number, podman=podman, images=ids, images_read=isinstance(images, Known))
    return Known[Daemon](value=value, source=version.source)


def with_usage(
    context: Context, host: Host, it: ManagedContainer, daemon: Known[Daemon] | Absent | Unknown
) -> Known[Daemon] | Absent | Unknown:
    """The daemon with the space that nameless images and the build cache hold: `system df` walks through all layers."""
    if not isinstance(daemon, Known):
        return daemon
    usage = ask(context, host, (*it.engine, "system", "df", "--format", "{{json .}}"), parse.parse_df, timeout_s=10)
    sizes = usage.value if isinstance(usage, Known) else {}
    held = {"dangling_bytes": sizes.get("Images"), "build_cache_bytes": sizes.get("Build Cache")}
    return Known[Daemon](value=daemon.value.model_copy(update=held), source=daemon.source)


def event_window(now: datetime, finished: datetime | None, window_s: float) -> tuple[datetime, datetime]:
    """From when to when events are wanted: the window before now, and a minute before the death if that is earlier."""
    since = now - timedelta(seconds=window_s)
    if finished is not None:
        since = min(since, finished - timedelta(seconds=60))
    return since, now
