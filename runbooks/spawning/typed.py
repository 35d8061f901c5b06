"""Commands that a person types instead of a step, from the arguments that are carried out and the fleet file's own names. Pure."""

import posixpath
import shlex

from runbooks.core.args.workers import MarkWorkerRow, StartWorker
from runbooks.core.by_hand import detached, while_booted
from runbooks.parsers.runpod import Pod
from runbooks.spawning.evidence import OwnNames
from runbooks.spawning.words import in_sql

UPSERT = (
    "import json, os, sys; p, e, s, n = sys.argv[1:]; "
    "i = dict(projectId=p, environmentId=e, serviceId=s, name=n, value=os.environ[n]); "
    'q = "mutation set($input: VariableUpsertInput!) { variableUpsert(input: $input) }"; '
    "print(json.dumps(dict(query=q, variables=dict(input=i))))"
)


def starting(args: StartWorker, pod: Pod, names: OwnNames) -> str:
    """The worker's start in its pod, which writes where its worker writes; in the life of the pod that was judged."""
    out = names.log.replace("{worker}", args.worker)
    folder = f"mkdir -p {shlex.quote(posixpath.dirname(out))} && " if out else ""
    inside = while_booted(args.boot_id, f"{folder}{detached(args.argv, out)}")
    return f"{log_in(pod, names)} {shlex.quote(inside)}"


def log_in(pod: Pod, names: OwnNames) -> str:
    """The way into the pod."""
    return f"ssh -p {pod.ssh_port} {shlex.quote(f'{names.user}@{pod.ip}')}"


def marking(args: MarkWorkerRow, names: OwnNames) -> str:
    """The row's new status, where the row is as it was read."""
    pod = f"{_sql(names.metadata)} ->> {in_sql(names.pod)}" if names.metadata else f"CAST({_sql(names.pod)} AS text)"
    beat = in_sql(args.heartbeat) if args.heartbeat else "NULL"
    update = (
        f"UPDATE {_sql(names.table)} SET {_sql(names.status)} = {in_sql(args.to)} "  # noqa: S608
        f"WHERE CAST({_sql(names.id)} AS text) = {in_sql(args.worker)} AND {_sql(names.status)} = {in_sql(args.was)} "
        f"AND {_sql(names.heartbeat)} IS NOT DISTINCT FROM {beat} AND COALESCE({pod}, '') = {in_sql(args.pod)}"
    )
    return f'psql "${names.database}" -c {shlex.quote(update)}'


def asking(names: OwnNames, pod: str, then: str = "", method: str = "GET") -> str:
    """A call about one pod at the provider, by the pod's id."""
    key = f"${names.pods_key}"
    return f'curl -sSf -X {method} -H "Authorization: Bearer {key}" {shlex.quote(f"{names.pods}/pods/{pod}{then}")}'


def setting(variable: str, names: OwnNames) -> str:
    """The orchestrator's variable, set to what the variable of that name holds here. The value stands on no command line."""
    where = (names.project, names.environment, names.service)
    body = shlex.join(("python3", "-c", UPSERT, *where, variable))
    header = f'-H "{names.platform_header}" -H "Content-Type: application/json"'
    return f"{body} | curl -sSf {header} --data-binary @- {shlex.quote(names.platform)}"


def _sql(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))
