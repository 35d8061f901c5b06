"""Tries the orchestrator's systems: provider, database, platform, logs, both key halves, scaling. Reads only."""

import re
from collections.abc import Callable, Generator, Iterator
from functools import partial

from runbooks.core.nightly import SystemCheck
from runbooks.core.orchestrator_config import DatabaseConfig, Orchestrator, RailwayConfig, WorkerLogs
from runbooks.core.reading import ODD_ANSWER
from runbooks.parsers.railway import FAILED
from runbooks.parsers.ssh_key import describe_key_text, public_shape
from tasks.clients.railway import RailwayClient
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.clients.worker_db import open_db
from tasks.credentials import credential, where
from tasks.installation import installation_redactor
from tasks.spawning.railway import describe_variables, sealed_of
from tasks.systems.request import check_request
from tasks.systems.scaling import check_scaling
from tasks.systems.trying import SILENT, Try, check_of
from tasks.transport.base import TransportError

NEEDED = ("RUNPOD_API_KEY", "SUPABASE_URL", "SUPABASE_SERVICE_ROLE_KEY")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
TOKENS = {"project": "a project token (sent as Project-Access-Token)", "account": "an account or workspace token"}
OWN_PROJECT = ("project",)  # kinds of token that say which project they are for
SHAPES = {
    "runpod": (r"rpa_\w{10,}", "rpa_…"),
    "url": (r"(postgres(ql)?|sqlite)(\+\w+)?://\S+", "postgresql://user:password@host:5432/database"),
    "rest_url": (r"https?://\S+", "https://<project>.supabase.co"),
    "rest_key": (r"eyJ[\w-]+\.[\w-]+\.[\w-]+|sb_secret_\w+", "a service key: eyJ… or sb_secret_…"),
}


def tries_of(config: Orchestrator) -> tuple[Try, ...]:
    """One per system that the section names; each says how it is put right."""
    runpod, database, railway = config.runpod, config.database, config.railway
    return (
        Try("runpod", runpod.rest_url, partial(_provider, config), f"see that {runpod.rest_url} answers from this machine"),
        Try("database", "", partial(_database, database), f"see that the database of {database.url_env} answers from this machine"),
        Try("railway", railway.url if railway else "", partial(_platform, config), "see that Railway's API answers from this machine"),
        Try("worker logs", "", partial(_logs, config.logs), "see that the store of orchestrator.logs answers from this machine"),
    )


def _checked(name: str, ask: Callable[[], str], fix: str) -> SystemCheck:
    try:
        return check_of(name, "ok", ask())
    except (TransportError, NotFound) as e:
        detail = e.why if isinstance(e, TransportError) else str(e)
        return check_of(name, "FAULT", detail, fix, silent=isinstance(e, TransportError) and e.reason in SILENT)
    except ODD_ANSWER as e:
        return check_of(name, "FAULT", f"unexpected answer: {type(e).__name__}: {e}", fix)


def _formed(check: str, name: str, kind: str) -> Iterator[SystemCheck]:
    """A note when a credential is there and looks unlike one: blanks, quotes, another kind of value."""
    value = credential(name)
    pattern, like = SHAPES[kind]
    if value.strip() and not re.fullmatch(pattern, value):
        what = "has blanks or quotes around it" if value != value.strip(" \t\r\n'\"") else "looks unlike one"
        yield check_of(check, "note", f"{name} {what}; it should read {like}", f"set {name} again, without quotes")


def _provider(config: Orchestrator) -> Iterator[SystemCheck]:
    def client() -> RunPodClient:
        return RunPodClient(config.runpod, installation_redactor())

    def ask() -> str:
        ours = client()
        try:
            pods = ours.pods()
            for pod in pods[:1]:
                ours.pod(pod.id)
        finally:
            ours.close()
        return f"answers; {len(pods)} pods named {config.runpod.name_prefix}…"

    key = config.runpod.key_env
    yield from _formed("runpod key", key, "runpod")
    yield _checked(
        "runpod", ask, f"set {where(key)} to an API key of the account that holds the pods; read scope is enough"
    )


def _database(config: DatabaseConfig) -> Iterator[SystemCheck]:
    def ask() -> str:
        db = open_db(config, installation_redactor())
        return f"{db.shown}: {len(db.workers())} workers, {len(db.tasks())} tasks in progress, {db.queued()} queued"

    if credential(config.url_env):
        yield from _formed("database url", config.url_env, "url")
    else:
        yield from _formed("database url", config.rest_url_env, "rest_url")
        yield from _formed("database key", config.rest_key_env, "rest_key")
    fix = f"set {where(config.url_env)} (a role with SELECT on the two tables is enough), and correct table and column names"
    yield _checked("database", ask, fix)


def _pair(config: Orchestrator) -> Generator[SystemCheck, None, str]:
    """Both halves of the key here. Returns the private half's fingerprint."""
    private = credential(config.ssh.key_env)
    public = public_shape(credential(config.ssh.public_key_env).strip())
    shape = describe_key_text(private)
    if not private.strip() or not shape.private:
        what = "is not set" if not private.strip() else f"holds no private key ({shape.format})"
        yield check_of("pod key", "FAULT", f"{config.ssh.key_env} {what}", "set it to the private half of the pods' key")
        return ""
    if shape.damage:
        yield check_of(
            "pod key", "FAULT", f"{config.ssh.key_env}: {', '.join(shape.damage)}", "store it with its newlines"
        )
    if shape.encrypted:
        yield check_of(
            "pod key", "FAULT", f"{config.ssh.key_env} is encrypted", "ssh-keygen -p on a copy, or another pair"
        )
    if public and shape.fingerprint and public.fingerprint != shape.fingerprint:
        says = f"private {shape.fingerprint}, public {public.fingerprint}: not a pair"
        yield check_of("pod key", "FAULT", says, "set both halves of one pair")
    elif not shape.damage and not shape.encrypted:
        yield check_of("pod key", "ok", f"{shape.type} {shape.fingerprint}" + ("" if public else "; no public half here"))
    return shape.fingerprint


def _platform(config: Orchestrator) -> Iterator[SystemCheck]:
    """The key pair here, then deployment status, variables, and the key halves on the platform."""
    local = yield from _pair(config)
    railway = config.railway
    if railway is None:
        yield check_of("railway", "note", "not in the fleet file: the orchestrator's own log and variables are not read")
        return
    ids = {n: getattr(railway, n) for n in ("project", "environment", "service")}
    named = [n for n, value in ids.items() if not UUID.fullmatch(value)]
    if named:
        yield check_of("railway ids", "note", f"{', '.join(named)}: not an id (UUID); the API accepts no names",
                    "copy the ids from the service's page: Ctrl-K, Copy … ID")  # fmt: skip
    try:
        client = RailwayClient(railway, installation_redactor())
        try:
            found, (running, newer), sealed = client.variables(), client.service(), sealed_of(client)
            yield from _token(client, railway)
        finally:
            client.close()
    except (TransportError, KeyError, TypeError, IndexError) as e:
        fix = f"set {where(railway.token_env)} to {TOKENS[railway.token_kind]}, or correct token_kind, project, environment and service"
        yield check_of("railway", "FAULT", str(e), fix)
        return
    status = running.status if running else "none"
    fix = "" if status == "SUCCESS" else "railway logs --deployment; then deploy again or roll back"
    yield check_of("railway", "ok" if status == "SUCCESS" else "FAULT", f"deployment in service: {status}", fix)
    if newer and newer[0].status == FAILED:
        yield check_of("railway newest", "FAULT", f"{newer[0].words} failed; the one before it still runs", "read its build log")
    yield from _variables(config, found, sealed, local)


def _token(client: RailwayClient, railway: RailwayConfig) -> Iterator[SystemCheck]:
    """A project token of another project or environment would show another orchestrator."""
    if railway.token_kind not in OWN_PROJECT:
        return
    project, environment = client.token_is_for()
    if (project, environment) != (railway.project, railway.environment):
        says = f"the token is for project {project}, environment {environment}"
        yield check_of("railway token", "FAULT", says, "make one for the project and environment of the fleet file")


def _variables(
    config: Orchestrator, found: dict[str, str], sealed: tuple[str, ...] | None, local: str
) -> Iterator[SystemCheck]:
    hidden = set(sealed or ())
    wanted = (*NEEDED, config.ssh.key_env, config.ssh.public_key_env)
    missing = [n for n in wanted if n not in hidden and not found.get(n, "").strip()]
    if missing:
        yield check_of(
            "railway variables", "FAULT", f"not set: {', '.join(missing)}", "set them in the service's variables"
        )
    if hidden & set(wanted):
        yield check_of("railway variables", "note", f"sealed, so not looked at: {', '.join(sorted(hidden & set(wanted)))}")
    seen = describe_variables(found, config, sealed)
    if not missing and seen.private_fault:
        yield check_of("railway key", "FAULT", seen.private_fault, "set the whole private key, newlines included")
    elif local and seen.private_fingerprint and seen.private_fingerprint != local:
        yield check_of(
            "railway key", "FAULT", f"{seen.private_fingerprint} there, {local} here", "use one pair in both places"
        )
    if seen.private_fingerprint and seen.public_fingerprint and seen.private_fingerprint != seen.public_fingerprint:
        yield check_of("railway key", "FAULT", "its two halves are not one pair", "set both halves of one pair")
    yield from check_scaling(found)
    yield from check_request(config, found)


def _logs(config: WorkerLogs | None) -> Iterator[SystemCheck]:
    if config is None:
        yield check_of("worker logs", "note", "not in the fleet file (orchestrator.logs): a dead pod's last words are lost")
        return
    from botocore.exceptions import BotoCoreError, ClientError

    from tasks.clients.worker_log_store import log_client

    prefix = config.key.partition("{worker}")[0]
    try:
        client = log_client(config)
        found = client.list_objects_v2(Bucket=config.bucket, Prefix=prefix, MaxKeys=1).get("Contents", [])
        for item in found:
            client.get_object(Bucket=config.bucket, Key=item["Key"], Range="bytes=0-0")["Body"].read()
        what = "can be listed and read" if found else f"can be listed; nothing there yet below {prefix or 'its root'}"
        yield check_of("worker logs", "ok", f"s3://{config.bucket} {what}")
    except (ClientError, BotoCoreError) as e:
        yield check_of(
            "worker logs", "FAULT", f"s3://{config.bucket}: {e}"[:300],
            f"credentials with s3:ListBucket on {config.bucket} and s3:GetObject on {config.bucket}/{prefix}*",
        )  # fmt: skip
