"""Which logs a target has: files that a person names, or everything that the fleet file knows of the orchestrator."""

from collections.abc import Callable
from pathlib import Path

from runbooks.core.fleet import Fleet
from runbooks.core.logs_config import LogPlace, LogSources
from runbooks.core.orchestrator_config import Orchestrator
from runbooks.parsers.logs.shapes import shape_named
from tasks.clients.logs.bytes import HostBytes, LocalBytes
from tasks.clients.logs.source import LogSource
from tasks.clients.logs.text import TextLog
from tasks.installation import lasting
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool

FAR = 4 << 20  # bytes that are read of a log on another machine
Opened = tuple[str, str, Callable[[], LogSource]]
"""Name, place, and what opens it; that raises TransportError where it cannot be asked at all."""


def named_file(path: Path, shape: str, config: LogSources) -> Opened:
    """A file that a person names."""
    return path.name, str(path), lambda: TextLog(path.name, LocalBytes(path), shape_named(shape, config))


def orchestrator_logs(fleet: Fleet, config: Orchestrator, hosts: HostPool) -> list[Opened]:
    """All that the fleet file names, but the workers' own."""
    sources = config.log_sources
    return [_file(fleet, file, sources, hosts) for file in sources.files]


def _file(fleet: Fleet, file: LogPlace, config: LogSources, hosts: HostPool) -> Opened:
    shape = shape_named(file.shape, config)
    if not file.node:
        path = lasting(file.path)
        name = file.name or path.name
        return name, str(path), lambda: TextLog(name, LocalBytes(path), shape)
    name = file.name or f"{file.node}:{Path(file.path).name}"
    place = f"{file.node}:{file.path}"

    def far() -> LogSource:
        return TextLog(name, HostBytes(hosts(fleet.node(file.node)), file.path, place), shape, FAR)

    return name, place, far


def opened(one: Opened) -> LogSource | TransportError:
    """The source, or why it cannot be asked."""
    try:
        return one[2]()
    except TransportError as e:
        return e
