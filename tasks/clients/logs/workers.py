"""A worker's own log: what it uploaded to the S3 store, and the file on its pod by SSH."""

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.logs.ids import is_plain_id
from runbooks.parsers.logs.shapes import shape_named
from tasks.clients.logs.bytes import HostBytes, StoredBytes
from tasks.clients.logs.source import FAR_S, LogSource
from tasks.clients.logs.text import TextLog
from tasks.clients.pod_trust import pod_node, trust_of
from tasks.clients.runpod import RunPodClient
from tasks.clients.worker_log_store import log_client
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool

FAR = 4 << 20  # bytes that are read of a log on another machine


def _checked(worker: str) -> None:
    if not is_plain_id(worker):
        raise TransportError(UnknownReason.UNPARSABLE, "the worker's id is none that may stand in a path: its log is not read")


def stored_log(config: Orchestrator, worker: str) -> LogSource:
    """The object of its id. Raises TransportError."""
    _checked(worker)
    assert config.logs is not None, "the caller has looked"  # noqa: S101 - for the type checker
    key = config.logs.key.replace("{worker}", worker)
    shape = shape_named(config.log_sources.worker_shape, config.log_sources)
    from botocore.exceptions import BotoCoreError

    try:
        client = log_client(config.logs)
    except (BotoCoreError, ValueError) as e:  # a profile that is not there, an address that is none
        raise TransportError(UnknownReason.FAILED, f"{type(e).__name__}: {e}"[:300]) from None
    return TextLog(f"s3:{worker}", StoredBytes(client, config.logs.bucket, key), shape, FAR, worker, FAR_S)


def pod_log(config: Orchestrator, worker: str, hosts: HostPool, redactor: Redactor) -> LogSource:
    """The file on the pod of its name, whose host key is known. Raises TransportError."""
    _checked(worker)
    client = RunPodClient(config.runpod, redactor)
    try:
        pods = [p for p in client.pods() if p.name == worker and not p.terminated]
    finally:
        client.close()
    if len(pods) != 1:
        said = f"{len(pods)} pods have that name" if pods else "the provider lists no pod of that name"
        raise TransportError(UnknownReason.UNREACHABLE, said)
    pod = pods[0]
    if not pod.ip or not pod.ssh_port:
        raise TransportError(UnknownReason.UNREACHABLE, f"pod {pod.id} has no public address for port 22")
    try:
        trust = trust_of(config.ssh, pod.id)
    except (ValueError, OSError) as e:
        raise TransportError(UnknownReason.FAILED, str(e)) from None
    if not trust.key:
        said = f"no host key of pod {pod.id} is known; `gpu-runbooks run stuck-spawning worker/{worker}` looks at it first"
        raise TransportError(UnknownReason.DENIED, said)
    path = config.process.log.replace("{worker}", worker)
    shape = shape_named(config.log_sources.worker_shape, config.log_sources)
    host = hosts(pod_node(config, pod, trust.key))
    return TextLog(f"pod:{worker}", HostBytes(host, path, f"{pod.id}:{path}"), shape, FAR, worker, FAR_S)
