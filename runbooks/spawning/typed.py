"""Commands that a person types instead of a step, from the arguments that are carried out and the fleet file's own names. Pure."""

import posixpath
import shlex

from runbooks.core.args.workers import StartWorker
from runbooks.core.by_hand import detached, while_booted
from runbooks.core.typed_pods import OwnNames
from runbooks.parsers.runpod import Pod

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


def setting(variable: str, names: OwnNames) -> str:
    """The orchestrator's variable, set to what the variable of that name holds here. The value stands on no command line."""
    where = (names.project, names.environment, names.service)
    body = shlex.join(("python3", "-c", UPSERT, *where, variable))
    return f"{body} | {to_platform(names, '@-')}"


def to_platform(names: OwnNames, data: str) -> str:
    """A call of the orchestrator's platform with that body, as a word of the shell: the token by its variable."""
    header = f'-H "{names.platform_header}" -H "Content-Type: application/json"'
    return f"curl -sSf {header} --data-binary {data} {shlex.quote(names.platform)}"
