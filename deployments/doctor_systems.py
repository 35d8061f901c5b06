"""`doctor` on the orchestrator's systems: provider, database, platform, logs, both key halves, scaling. Reads only."""

import os
from collections.abc import Callable, Generator, Iterator

from deployments.doctor import Check
from runbooks.core.fleet import Fleet
from runbooks.core.orchestrator_config import Orchestrator, WorkerLogs
from runbooks.parsers.ssh_key import describe_key_text, public_shape
from tasks.clients.railway import RailwayClient
from tasks.clients.runpod import RunPodClient
from tasks.clients.worker_db import open_db
from tasks.diagnostics.railway import describe_variables
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError

NEEDED = ("RUNPOD_API_KEY", "SUPABASE_URL", "SUPABASE_SERVICE_ROLE_KEY")


def check_systems(fleet: Fleet) -> Iterator[Check]:
    """One check per system that the fleet file names; each says how it is put right."""
    config = fleet.orchestrator
    if config is None:
        return
    yield from _provider(config)
    yield from _database(config)
    local = yield from _pair(config)
    yield from _platform(config, local)
    if config.logs:
        yield from _logs(config.logs)


def _asked(name: str, ask: Callable[[], str], fix: str) -> Check:
    try:
        return Check(name, "ok", ask())
    except TransportError as e:
        return Check(name, "FAULT", f"{e.reason}: {e.detail}", fix)
    except (KeyError, ValueError, TypeError) as e:
        return Check(name, "FAULT", f"its answer has another shape: {type(e).__name__}: {e}", fix)


def _provider(config: Orchestrator) -> Iterator[Check]:
    def ask() -> str:
        client = RunPodClient(config.runpod, installation_redactor())
        try:
            pods = client.pods()
        finally:
            client.close()
        return f"answers; {len(pods)} pods named {config.runpod.name_prefix}…"

    key = os.environ.get(config.runpod.key_env, "")
    if key and not key.startswith("rpa_"):
        yield Check("runpod key", "note", f"{config.runpod.key_env} does not begin with rpa_")
    yield _asked("runpod", ask, f"set {config.runpod.key_env} to an API key that may read pods")


def _database(config: Orchestrator) -> Iterator[Check]:
    def ask() -> str:
        db = open_db(config.database, installation_redactor())
        return f"{db.shown}: {len(db.workers())} workers, {len(db.tasks())} tasks in progress, {db.queued()} queued"

    fix = f"set {config.database.url_env} (a role with SELECT is enough), and correct table and column names"
    yield _asked("database", ask, fix)


def _pair(config: Orchestrator) -> Generator[Check, None, str]:
    """Both halves of the key here. Returns the private half's fingerprint."""
    private = os.environ.get(config.ssh.key_env, "")
    public = public_shape(os.environ.get(config.ssh.public_key_env, "").strip())
    shape = describe_key_text(private)
    if not private.strip() or not shape.private:
        what = "is not set" if not private.strip() else f"holds no private key ({shape.format})"
        yield Check("pod key", "FAULT", f"{config.ssh.key_env} {what}", "set it to the private half of the pods' key")
        return ""
    if shape.damage:
        yield Check(
            "pod key", "FAULT", f"{config.ssh.key_env}: {', '.join(shape.damage)}", "store it with its newlines"
        )
    if public and shape.fingerprint and public.fingerprint != shape.fingerprint:
        says = f"private {shape.fingerprint}, public {public.fingerprint}: not one pair"
        yield Check("pod key", "FAULT", says, "set both halves of one pair")
    elif not shape.damage:
        yield Check("pod key", "ok", f"{shape.type} {shape.fingerprint}")
    return shape.fingerprint


def _platform(config: Orchestrator, local: str) -> Iterator[Check]:
    """Deployment status, variables, and the key halves on the platform."""
    if config.railway is None:
        yield Check("railway", "note", "not in the fleet file: the orchestrator's own log and variables are not read")
        return
    try:
        client = RailwayClient(config.railway, installation_redactor())
        try:
            found, (_, status) = client.variables(), client.deployment()
        finally:
            client.close()
    except (TransportError, KeyError, TypeError, IndexError) as e:
        fix = f"set {config.railway.token_env} to a project token, and correct project, environment and service"
        yield Check("railway", "FAULT", str(e), fix)
        return
    yield Check("railway", "ok" if status == "SUCCESS" else "FAULT", f"newest deployment: {status or 'none'}")
    missing = [n for n in (*NEEDED, config.ssh.key_env, config.ssh.public_key_env) if not found.get(n, "").strip()]
    if missing:
        yield Check(
            "railway variables", "FAULT", f"not set: {', '.join(missing)}", "set them in the service's variables"
        )
    seen = describe_variables(found, config)
    if not missing and seen.private_fault:
        yield Check("railway key", "FAULT", seen.private_fault, "set the whole private key, newlines included")
    elif local and seen.private_fingerprint and seen.private_fingerprint != local:
        yield Check(
            "railway key", "FAULT", f"{seen.private_fingerprint} there, {local} here", "use one pair in both places"
        )
    if seen.private_fingerprint and seen.public_fingerprint and seen.private_fingerprint != seen.public_fingerprint:
        yield Check("railway key", "FAULT", "its two halves are not one pair", "set both halves of one pair")
    yield from check_scaling(found)


def check_scaling(found: dict[str, str]) -> Iterator[Check]:
    """The numbers and names that decide how many workers are spawned, and of what."""
    numbers: dict[str, int] = {}
    for name, least in (
        ("MIN_ACTIVE_GPUS", 0),
        ("MAX_ACTIVE_GPUS", 1),
        ("GPU_IDLE_TIMEOUT_SEC", 1),
        ("TASKS_PER_GPU_THRESHOLD", 1),
    ):
        text = found.get(name, "").strip()
        if text.isdigit() and int(text) >= least:
            numbers[name] = int(text)
        elif text:
            yield Check("scaling", "FAULT", f"{name} is {text[:20]!r}", f"a whole number of at least {least}")
        else:
            yield Check("scaling", "note", f"{name} is not set: the orchestrator's default holds")
    if numbers.get("MIN_ACTIVE_GPUS", 0) > numbers.get("MAX_ACTIVE_GPUS", 1 << 30):
        yield Check(
            "scaling", "FAULT", "MIN_ACTIVE_GPUS is above MAX_ACTIVE_GPUS", "no worker can satisfy both: lower one"
        )
    for name in ("RUNPOD_STORAGE_NAME", "RUNPOD_GPU_TYPE", "RUNPOD_WORKER_IMAGE"):
        text = found.get(name, "")
        if not text.strip():
            yield Check("scaling", "note", f"{name} is not set")
        elif text != text.strip() or text[:1] in "'\"" or (name.endswith("IMAGE") and (" " in text or ":" not in text)):
            yield Check("scaling", "FAULT", f"{name} has blanks or quotes around it, or no tag", "write the bare value")


def _logs(config: WorkerLogs) -> Iterator[Check]:
    from botocore.exceptions import BotoCoreError, ClientError

    from tasks.diagnostics.worker_logs_s3 import _client

    try:
        _client(config).list_objects_v2(Bucket=config.bucket, MaxKeys=1)
        yield Check("worker logs", "ok", f"s3://{config.bucket} can be listed")
    except (ClientError, BotoCoreError) as e:
        yield Check(
            "worker logs", "FAULT", f"s3://{config.bucket}: {e}"[:300], "credentials with List and Get on that bucket"
        )
