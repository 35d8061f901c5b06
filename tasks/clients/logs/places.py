"""Which logs a target has: files that a person names, or everything that the fleet file knows of the orchestrator."""

from collections.abc import Callable, Sequence
from pathlib import Path

from runbooks.core.fleet import Fleet
from runbooks.core.logs_config import LogPlace, LogSources, LogTable
from runbooks.core.orchestrator_config import Orchestrator, RailwayConfig
from runbooks.core.redact import Redactor
from runbooks.parsers.logs.shapes import shape_named
from tasks.clients.logs.bytes import HostBytes, LocalBytes
from tasks.clients.logs.platform import PlatformLog
from tasks.clients.logs.source import FAR_S, LogSource
from tasks.clients.logs.table import TableLog, table_pages
from tasks.clients.logs.text import TextLog
from tasks.clients.logs.workers import FAR, pod_log, stored_log
from tasks.credentials import credential
from tasks.installation import lasting
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool

Opened = tuple[str, str, Callable[[], LogSource]]
"""Name, place, and what opens it; that raises TransportError where it cannot be asked at all."""


def named_files(paths: Sequence[Path], shape: str, config: LogSources) -> list[Opened]:
    """Files that a person names. Those of one name are shown with their folder."""
    names = [path.name for path in paths] + [file.shown for file in config.files]
    return [_named(path, str(path) if names.count(path.name) > 1 else path.name, shape, config) for path in dict.fromkeys(paths)]


def _named(path: Path, name: str, shape: str, config: LogSources) -> Opened:
    return name, str(path), lambda: TextLog(name, LocalBytes(path), shape_named(shape, config))


def orchestrator_logs(fleet: Fleet, config: Orchestrator, hosts: HostPool, redactor: Redactor) -> list[Opened]:
    """All that the fleet file names, but the workers' own."""
    sources = config.log_sources
    found = [_file(fleet, file, sources, hosts) for file in sources.files]
    if (table := sources.table) is not None:
        found.append((f"table {table.table}", "the orchestrator's database", _table(config, table, redactor)))
    if (railway := config.railway) is not None:
        found.append(("railway", railway.url, _platform(railway, sources, redactor)))
    return found


def knowing(config: Orchestrator, redactor: Redactor) -> Redactor:
    """A redactor that also knows the values of the fleet file's own credentials: an orchestrator logs them."""
    d = config.database
    names = [config.runpod.key_env, d.url_env, d.rest_key_env, config.ssh.key_env, *([config.railway.token_env] if config.railway else [])]
    return redactor.knowing({name: value for name in names if (value := credential(name).strip())})


def _table(config: Orchestrator, table: LogTable, redactor: Redactor) -> Callable[[], LogSource]:
    return lambda: TableLog(table, table_pages(config.database, table, redactor))


def _platform(railway: RailwayConfig, sources: LogSources, redactor: Redactor) -> Callable[[], LogSource]:
    shape = shape_named(sources.platform_shape, sources)
    return lambda: PlatformLog(railway, shape, sources.platform_lines, redactor)


def worker_logs(config: Orchestrator, worker: str, hosts: HostPool, redactor: Redactor) -> list[Opened]:
    """The worker's own: what it uploaded where the fleet file names a store, and the file on its pod."""
    found: list[Opened] = []
    if config.logs is not None:
        found.append((f"s3:{worker}", f"s3://{config.logs.bucket}", lambda: stored_log(config, worker)))
    found.append((f"pod:{worker}", config.process.log, lambda: pod_log(config, worker, hosts, redactor)))
    return found


def _file(fleet: Fleet, file: LogPlace, config: LogSources, hosts: HostPool) -> Opened:
    shape = shape_named(file.shape, config)
    if not file.node:
        path = lasting(file.path)
        return file.shown, str(path), lambda: TextLog(file.shown, LocalBytes(path), shape)
    place = f"{file.node}:{file.path}"

    def far() -> LogSource:
        return TextLog(file.shown, HostBytes(hosts(fleet.node(file.node)), file.path, place), shape, FAR, every_s=FAR_S)

    return file.shown, place, far


def opened(one: Opened) -> LogSource | TransportError:
    """The source, or why it cannot be asked."""
    try:
        return one[2]()
    except TransportError as e:
        return e
