"""A small client of Railway's GraphQL: names of variables, deployment status, newest log lines. Values never leave it."""

from typing import Any

from runbooks.core.orchestrator_config import RailwayConfig
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.fields import given
from runbooks.parsers.railway import REDEPLOY, RESTART, Deployment, deployment_of, in_service
from tasks.transport.base import TransportError
from tasks.transport.http import HttpReader

VARIABLES = (
    "query variables($p: String!, $e: String!, $s: String) "
    "{ variables(projectId: $p, environmentId: $e, serviceId: $s) }"
)
DEPLOYMENTS = (
    "query deployments($p: String!, $e: String!, $s: String!, $n: Int) { deployments(first: $n, input: "
    "{projectId: $p, environmentId: $e, serviceId: $s}) { edges { node { id status createdAt meta } } } }"
)
MOST = 20  # deployments that are looked through for the one in service
LOGS = "query logs($d: String!, $n: Int) { deploymentLogs(deploymentId: $d, limit: $n) { timestamp message } }"
LINES = (
    "query lines($d: String!, $n: Int) "
    "{ deploymentLogs(deploymentId: $d, limit: $n) { timestamp message attributes { key value } } }"
)
SEALED = (
    "query sealed($p: String!, $e: String!) { environment(id: $e, projectId: $p) "
    "{ variables(first: 1000) { edges { node { name serviceId isSealed } } } } }"
)
TOKEN = "query ours { projectToken { project { id name } environment { id name } } }"  # noqa: S105 - a question
HEADERS = {"project": "Project-Access-Token", "account": "Authorization"}
UPSERT = "mutation set($input: VariableUpsertInput!) { variableUpsert(input: $input) }"


def header_line(config: RailwayConfig) -> str:
    """Who asks, as a person's own command says it: the token by its variable."""
    header = HEADERS[config.token_kind]
    return f"{header}: {'Bearer ' if header == 'Authorization' else ''}${config.token_env}"


class RailwayClient:
    """One service of one project."""

    def __init__(self, config: RailwayConfig, redactor: Redactor) -> None:
        self._config = config
        self._http = HttpReader(
            config.url, redactor, token_env=config.token_env, sent_in=HEADERS[config.token_kind],
            timeout_s=config.timeout_s,
        )  # fmt: skip
        self._ids = {"p": config.project, "e": config.environment, "s": config.service}

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def variables(self) -> dict[str, str]:
        """All variables. The caller keeps names and fingerprints only. Raises TransportError."""
        found = self._ask(VARIABLES, self._ids)["variables"]
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise TransportError(UnknownReason.UNPARSABLE, "no variables in the answer")
        return found

    def sealed(self) -> tuple[str, ...]:
        """Names of the service's sealed variables: set, and never given out by the platform. Raises TransportError, one of ODD_ANSWER."""
        edges = self._ask(SEALED, {"p": self._config.project, "e": self._config.environment})["environment"][
            "variables"
        ]["edges"]
        nodes = [e["node"] for e in edges if given(e["node"], "isSealed", bool)]
        ours = [n for n in nodes if n.get("serviceId") is None or given(n, "serviceId", str) == self._config.service]
        return tuple(given(n, "name", str) for n in ours)

    def token_is_for(self) -> tuple[str, str]:
        """(project id, environment id) that a project token belongs to. Raises TransportError."""
        token = self._ask(TOKEN, {})["projectToken"]
        return str(token["project"]["id"]), str(token["environment"]["id"])

    def service(self) -> tuple[Deployment | None, tuple[Deployment, ...]]:
        """(the deployment in service, those made after it, newest first); None: there is none. Raises TransportError, one of ODD_ANSWER."""
        edges = given(self._ask(DEPLOYMENTS, self._ids | {"n": MOST})["deployments"], "edges", list)
        found = [deployment_of(given(e, "node", dict)) for e in edges]
        running, newer = in_service(found, whole=len(edges) < MOST)
        if running is None and newer:
            raise TransportError(UnknownReason.FAILED, f"none of the newest {MOST} deployments came up: which one runs is not known")
        return running, newer

    def log(self, deployment: str, lines: int) -> str:
        """Newest log lines with their time. Raises TransportError, one of ODD_ANSWER."""
        rows = given(self._ask(LOGS, {"d": deployment, "n": lines}), "deploymentLogs", list)
        return "\n".join(f"{given(r, 'timestamp', str)} {given(r, 'message', str)}" for r in rows)

    def lines(self, deployment: str, most: int) -> list[dict[str, Any]]:
        """Newest log lines as they are kept: timestamp, message, attributes. Raises TransportError, one of ODD_ANSWER."""
        rows = given(self._ask(LINES, {"d": deployment, "n": most}), "deploymentLogs", list)
        for row in rows:
            given(row, "timestamp", str), given(row, "message", str)
        return rows

    def set_variable(self, name: str, value: str) -> None:
        """Set one variable; the platform deploys again. Raises TransportError."""
        config = self._config
        about = {"projectId": config.project, "environmentId": config.environment, "serviceId": config.service}
        self._ask(UPSERT, {"input": {**about, "name": name, "value": value}})

    def restart(self, deployment: str) -> None:
        """Start a deployment's program again, without a build. Raises TransportError."""
        self._ask(RESTART, {"id": deployment})

    def redeploy(self, deployment: str) -> str:
        """Build and start a deployment's code again; the new one's id. Raises TransportError, one of ODD_ANSWER."""
        return given(given(self._ask(REDEPLOY, {"id": deployment}), "deploymentRedeploy", dict), "id", str)

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        body = self._http.post("", {"query": query, "variables": variables}).body
        if not isinstance(body, dict) or body.get("errors") or not isinstance(body.get("data"), dict):
            first = (body.get("errors") or [{}])[0] if isinstance(body, dict) else {}
            said = str(first.get("message", "no data in the answer"))[:200]
            denied = "authorized" in said.lower() or "denied" in said.lower()
            raise TransportError(UnknownReason.DENIED if denied else UnknownReason.FAILED, said)
        data: dict[str, Any] = body["data"]
        return data
