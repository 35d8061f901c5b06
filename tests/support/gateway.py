"""A gateway as a process of its own on a free port, and alerts to send to it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from deployments.ports import free_port
from tests.support.engine_rig import REPO

TOKEN = "a-token-of-the-tests-0123456789"
ALERTS = """
rules:
  - {name: toy, match: ['alertname=~"Toy.*"'], runbook: zombie-gpu, target: '{{ node }}', mode: auto}
"""


def firing(node: str, name: str = "ToySick", start: datetime | None = None, **more: Any) -> dict[str, Any]:
    """One alert as Alertmanager sends it."""
    at = start or datetime.now(UTC)
    alert = {
        "status": "firing",
        "labels": {"alertname": name, "node": node},
        "annotations": {"summary": f"{node} is sick"},
        "startsAt": at.isoformat(),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": f"{name}-{node}"[:60],
    }
    return alert | more


def payload(alerts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The body of Alertmanager's webhook."""
    return {"version": "4", "groupKey": "{}", "receiver": "gpu", "status": "firing", "alerts": list(alerts)}


class Gateway:
    """`gpu-runbooks gateway` on loopback."""

    def __init__(self, home: Path, fleet: Path, policy: Path | None, alerts: str = ALERTS, toy: bool = True) -> None:
        self.home, self.port = home, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = home / "alerts.yaml"
        self.file.write_text(alerts, encoding="utf-8")
        self.argv = [sys.executable, "-m", "deployments.cli.main", "gateway", "--port", str(self.port), "--fleet", str(fleet)]
        self.argv += ["--alerts", str(self.file), "--out", str(home / "reports")]
        self.argv += ["--policy", str(policy)] if policy else []
        path = f"{REPO / 'tests/faults/inject'}:{REPO}" if toy else str(REPO)
        self.env = os.environ | {"PYTHONPATH": path, "GPU_RUNBOOKS_GATEWAY_TOKEN": TOKEN, "FAULT": str(home / "fault")}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str, limit_s: float = 180) -> "Gateway":
        """Starts it and waits until it takes alerts."""
        log = (self.home / "gateway.log").open("ab")
        self.process = subprocess.Popen([*self.argv, *more], env=self.env, cwd=REPO, stdout=log, stderr=log)
        deadline = time.monotonic() + limit_s
        told = self.log().count(f"gateway: {self.url}")  # by earlier starts
        while True:
            announced = self.log().count(f"gateway: {self.url}") > told
            try:
                httpx.get(f"{self.url}/healthz").raise_for_status()
                return self
            except httpx.HTTPError as e:
                too_early = announced and isinstance(e, httpx.ConnectError)
                assert not too_early, "it printed its address before it listened there"
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.05)

    def post(self, body: Any, source: str = "alertmanager", **headers: str) -> httpx.Response:
        """One request, believed unless `headers` say otherwise."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"authorization": f"Bearer {TOKEN}"} | headers
        return httpx.post(f"{self.url}/alerts/{source}", content=data, headers=given, timeout=60)

    def alert(self, *alerts: dict[str, Any]) -> list[dict[str, Any]]:
        """What became of these alerts. They must have been accepted."""
        response = self.post(payload(alerts))
        assert response.status_code == 200, response.text
        found = response.json()["alerts"]
        assert isinstance(found, list)
        return found

    def metric(self, line: str) -> float:
        """The value of one line of /metrics; 0 if it is not there."""
        for found in httpx.get(f"{self.url}/metrics").text.splitlines():
            if found.startswith(line):
                return float(found.rsplit(" ", 1)[1])
        return 0.0

    def quiet(self, limit_s: float = 60) -> None:
        """Waits until no run of it is queued or running."""
        deadline = time.monotonic() + limit_s
        while True:
            said = httpx.get(f"{self.url}/healthz").json()
            if not said["queued"] and not said["running"]:
                return
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def log(self, most: int = 6000) -> str:
        """What it printed."""
        return (self.home / "gateway.log").read_text(encoding="utf-8", errors="replace")[-most:]

    def stop(self, limit_s: float = 60) -> int:
        """SIGTERM; returns its exit status."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self.process.wait(timeout=limit_s)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


def ago(seconds: float) -> datetime:
    """So long ago."""
    return datetime.now(UTC) - timedelta(seconds=seconds)
