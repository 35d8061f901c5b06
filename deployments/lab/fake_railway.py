"""A small stand-in for Railway's GraphQL on loopback: variables, the newest deployment, its log, its tokens.

Fields, arguments and headers are those of the official command line's queries (railwayapp/cli, src/gql)."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN, ACCOUNT_TOKEN = "railway-test-token", "railway-account-token"


class FakeRailway:
    """The server."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.sealed: set[str] = set()  # set, and never given out
        self.status = "SUCCESS"  # of the deployment dep1
        self.commit = "3f1c0de" + "0" * 33
        self.newer: list[dict[str, Any]] = []  # nodes of deployments made after it, newest first
        self.begun: list[str] = []  # deployments whose program was started again
        self.broken = False  # the program ends at once, however it is started
        self.lines: list[tuple[str, str]] = []
        self.levels: dict[str, str] = {}  # severity of a message; INFO of the others
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/graphql/v2"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def cycle(self, at: datetime | None = None) -> None:
        """The orchestrator goes round."""
        self.say("ORCHESTRATOR CYCLE #12", at)

    def begin(self, deployment: str) -> None:
        """Starts the program of that deployment; only dep1 has one."""
        self.begun.append(deployment)
        if deployment == "dep1":
            self.status = "CRASHED" if self.broken else "SUCCESS"
            if not self.broken:
                self.cycle()

    def say(self, message: str, at: datetime | None = None) -> None:
        """One log line."""
        self.lines.append(((at or datetime.now(UTC)).isoformat(), message))

    def attributes(self, message: str) -> list[dict[str, str]]:
        """What the platform makes of a line: `level` is always info, and each value is JSON again."""
        return [{"key": "level", "value": '"info"'}, {"key": "levelname", "value": json.dumps(self.levels.get(message, "INFO"))}]

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """The operations that are used."""
        query = body["query"]
        if "projectToken" in query:
            return {"projectToken": {"project": {"id": "p", "name": "n"}, "environment": {"id": "e", "name": "n"}}}
        if "isSealed" in query:
            nodes = [
                {"name": n, "serviceId": "s", "isSealed": n in self.sealed} for n in {*self.variables, *self.sealed}
            ]
            return {"environment": {"variables": {"edges": [{"node": n} for n in nodes]}}}
        if "variableUpsert" in query:
            given = body["variables"]["input"]
            self.variables[given["name"]] = given["value"]
            return {"variableUpsert": True}
        if "deploymentLogs" in query:
            rows: list[dict[str, Any]] = [{"timestamp": t, "message": m} for t, m in self.lines]
            if "attributes" in query:
                rows = [r | {"attributes": self.attributes(r["message"])} for r in rows]
            mine = rows if body["variables"]["d"] == "dep1" else []
            return {"deploymentLogs": mine[-int(body["variables"]["n"]) :]}
        if "deploymentRestart" in query:
            self.begin(body["variables"]["id"])
            return {"deploymentRestart": True}
        if "deploymentRedeploy" in query:
            self.begin("dep1")
            return {"deploymentRedeploy": {"id": "dep1"}}
        if "deployments(" in query:
            dep1 = {"id": "dep1", "status": self.status, "createdAt": "2026-01-01T00:00:00Z", "meta": {"commitHash": self.commit}}
            nodes = [*self.newer, dep1][: int(body["variables"]["n"])]
            return {"deployments": {"edges": [{"node": node} for node in nodes]}}
        return {"variables": {k: v for k, v in self.variables.items() if k not in self.sealed}}


def _handler(fake: FakeRailway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            fine = self.headers.get("Project-Access-Token") == TOKEN or (
                self.headers.get("Authorization") == f"Bearer {ACCOUNT_TOKEN}" and "projectToken" not in body["query"]
            )
            answer: dict[str, Any] = (
                {"data": fake.ask(body)} if fine else {"errors": [{"message": "Not Authorized"}], "data": None}
            )
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
