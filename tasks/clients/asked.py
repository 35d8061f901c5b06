"""What every reader of the orchestrator shares: a client's answer as a reading, and the fleet file's own names."""

from collections.abc import Callable
from typing import TypeVar

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import ODD_ANSWER, Known, Source, Unknown, UnknownReason
from runbooks.core.refusal import RefusalCode
from runbooks.core.typed_pods import OwnNames
from tasks.clients.railway import header_line
from tasks.context import ActionRefused, Context
from tasks.diagnostic import diagnostic
from tasks.transport.base import TransportError

T = TypeVar("T")


def names_of(config: Orchestrator) -> OwnNames:
    """The fleet file's names for what a person's own commands name."""
    w, r = config.database.workers, config.railway
    there = {} if r is None else {"platform": r.url, "platform_header": header_line(r), "project": r.project,
                                  "environment": r.environment, "service": r.service}  # fmt: skip
    return OwnNames(
        user=config.ssh.user, log=config.process.log, database=config.database.url_env, table=w.table, id=w.id, status=w.status,
        heartbeat=w.heartbeat, pod=w.pod_id, metadata=w.metadata, pods=config.runpod.rest_url, pods_key=config.runpod.key_env, **there,
    )  # fmt: skip


@diagnostic("{command} · {host}")
def asked(context: Context, host: str, command: str, ask: Callable[[], T]) -> Known[T] | Unknown:
    """The answer of a client as a reading."""
    source = Source(command=command, host=host, taken_at=context.now())
    try:
        return Known(value=ask(), source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)


def orchestrator_of(context: Context) -> Orchestrator:
    """The fleet file's section. Raises ActionRefused."""
    if context.fleet.orchestrator is None:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file has no `orchestrator` section")
    return context.fleet.orchestrator
