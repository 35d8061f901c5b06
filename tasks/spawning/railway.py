"""Reads the orchestrator's own side: deployment status, cycle lines, which variables are set. No value leaves here."""

from dataclasses import dataclass

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.refusal import RefusalCode
from runbooks.parsers.railway import Deployment
from runbooks.parsers.ssh_key import describe_key_text, public_shape
from runbooks.spawning.evidence import Variables
from runbooks.spawning.parsers.orchestrator_log import OrchestratorLog, parse_orchestrator_log
from tasks.clients.asked import orchestrator_of
from tasks.clients.railway import RailwayClient
from tasks.context import ActionRefused, Context
from tasks.credentials import credential
from tasks.diagnostic import diagnostic
from tasks.transport.base import TransportError

LINES = 500


@dataclass(frozen=True)
class Platform:
    """What the orchestrator's platform says, under the names of the evidence."""

    orchestrator: Known[OrchestratorLog] | Absent | Unknown
    deployment: Known[str] | Absent | Unknown
    variables: Known[Variables] | Absent | Unknown
    service: Deployment | None = None
    newer: tuple[Deployment, ...] = ()


def platform_of(context: Context) -> RailwayClient:
    """The client of an action on the orchestrator's platform. Raises ActionRefused."""
    config = orchestrator_of(context)
    if config.railway is None:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file names no platform of the orchestrator")
    return RailwayClient(config.railway, context.redactor)


@diagnostic("Railway: log, deployment, variables")
def read_railway(context: Context, config: Orchestrator, worker: str) -> Platform:
    """The log and the state of the deployment in service, and the service's variables."""
    if config.railway is None:
        none = Absent(proof="the fleet file names no platform of the orchestrator")
        return Platform(none, none, none)
    source = Source(command="railway logs; railway variables (names)", host="railway", taken_at=context.now())
    try:
        client = RailwayClient(config.railway, context.redactor)
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail, source=source)
        return Platform(no, no, no)
    try:
        return _asked(context, client, config, worker, source)
    finally:
        client.close()


def _asked(context: Context, client: RailwayClient, config: Orchestrator, worker: str, source: Source) -> Platform:
    variables = _variables(client, config, source)
    try:
        running, newer = client.service()
    except (TransportError, *ODD_ANSWER) as e:
        no = _unknown(e, source)
        return Platform(no, no, variables)
    if running is None:
        none = Absent(proof="the service has no deployment", source=source)
        return Platform(none, none, variables)
    log = _log(context, client, running.id, worker, source)
    return Platform(log, Known(value=running.status, source=source), variables, running, newer)


def _log(context: Context, client: RailwayClient, deployment: str, worker: str, source: Source) -> Known[OrchestratorLog] | Unknown:
    try:
        text = context.redactor.text(client.log(deployment, LINES))
    except (TransportError, *ODD_ANSWER) as e:
        return _unknown(e, source)
    return Known(value=parse_orchestrator_log(text, worker), source=source)


def _unknown(error: Exception, source: Source) -> Unknown:
    if isinstance(error, TransportError):
        return Unknown(reason=error.reason, detail=error.detail, source=source)
    return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"the answer has another shape: {error}", source=source)


def _variables(client: RailwayClient, config: Orchestrator, source: Source) -> Known[Variables] | Unknown:
    try:
        found = client.variables()
    except (TransportError, *ODD_ANSWER) as e:
        return _unknown(e, source)
    return Known(value=describe_variables(found, config, sealed_of(client)), source=source)


def sealed_of(client: RailwayClient) -> tuple[str, ...] | None:
    """Variables that are set and whose value the platform gives to nobody. None: it does not say."""
    try:
        return client.sealed()
    except (TransportError, *ODD_ANSWER):
        return None


def describe_variables(found: dict[str, str], config: Orchestrator, hidden: tuple[str, ...] | None = ()) -> Variables:
    """Names, and the fingerprints of the key halves. A private key whose format hides its public half has none."""
    private, public = found.get(config.ssh.key_env, ""), public_shape(found.get(config.ssh.public_key_env, "").strip())
    shape = describe_key_text(private)
    sealed = hidden or ()
    here, fault = describe_key_text(credential(config.ssh.key_env)), ""
    if config.ssh.key_env in sealed:
        fault = ""  # it is set; nobody can look at it
    elif not private.strip():
        fault = f"{config.ssh.key_env} is not set"
    elif not shape.private:
        fault = f"{config.ssh.key_env} holds no private key ({shape.format})"
    elif shape.damage and not shape.repairable:
        fault = f"{config.ssh.key_env} is damaged: {', '.join(shape.damage)}"
    elif shape.encrypted:
        fault = f"{config.ssh.key_env} is encrypted"
    return Variables(
        names=tuple(sorted({*found, *sealed})), private_fault=fault, sealed_known=hidden is not None,
        private_fingerprint=shape.fingerprint if shape.private else "",
        public_fingerprint=public.fingerprint if public else "",
        private_name=config.ssh.key_env,
        here_fingerprint=here.fingerprint if here.private and not here.damage and not here.encrypted else "",
    )  # fmt: skip
