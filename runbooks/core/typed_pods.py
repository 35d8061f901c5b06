"""Commands that a person types instead of a step on a worker's row or pod, by the fleet file's own names. Pure."""

import shlex

from runbooks.core.args.workers import MarkWorkerRow, RecoverPodId
from runbooks.core.base import Frozen
from runbooks.core.worker_ids import in_sql


class OwnNames(Frozen):
    """What the fleet file calls the things that a person's own commands name."""

    user: str = "root"  # of the log-in to pods
    log: str = ""  # where the worker writes, in the pod
    database: str = "DATABASE_URL"  # variable that holds the connection string
    table: str = "workers"  # and its columns
    id: str = "id"
    status: str = "status"
    heartbeat: str = "last_heartbeat"
    pod: str = "runpod_id"
    metadata: str = ""  # JSON column that holds `pod`
    pods: str = "https://rest.runpod.io/v1"  # where the provider answers
    pods_key: str = "RUNPOD_API_KEY"  # variable that holds its API key
    platform: str = "https://backboard.railway.com/graphql/v2"  # where the orchestrator's own platform does
    platform_header: str = "Project-Access-Token: $RAILWAY_TOKEN"  # who asks it
    project: str = ""  # ids
    environment: str = ""
    service: str = ""


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


def naming(args: RecoverPodId, names: OwnNames) -> str:
    """The pod's id in the row, where the row names none; the other keys of its metadata stay."""
    table, id, status = _sql(names.table), f"CAST({_sql(names.id)} AS text)", _sql(names.status)
    if names.metadata:
        old = f"{_sql(names.metadata)} ->> {in_sql(names.pod)}"
        key = f"CAST(json_build_object({in_sql(names.pod)}, {in_sql(args.pod)}) AS jsonb)"
        change = f"{_sql(names.metadata)} = COALESCE(CAST({_sql(names.metadata)} AS jsonb), '{{}}') || {key}"
    else:
        old, change = f"CAST({_sql(names.pod)} AS text)", f"{_sql(names.pod)} = {in_sql(args.pod)}"
    update = (
        f"UPDATE {table} SET {change} WHERE {id} = {in_sql(args.worker)} AND {status} = {in_sql(args.was)} "  # noqa: S608
        f"AND COALESCE({old}, '') = ''"
    )
    return f'psql "${names.database}" -c {shlex.quote(update)}'


def asking(names: OwnNames, pod: str, then: str = "", method: str = "GET") -> str:
    """A call about one pod at the provider, by the pod's id."""
    key = f"${names.pods_key}"
    return f'curl -sSf -X {method} -H "Authorization: Bearer {key}" {shlex.quote(f"{names.pods}/pods/{pod}{then}")}'


def _sql(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))
