"""Toy targets in one fleet, a gateway in front of it, and senders that come again like Alertmanager."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import yaml

from flows import store
from flows.reaper import sweep
from tasks.context import utc_now
from tests.scorecard import notes
from tests.support.engine_rig import Rig
from tests.support.gateway import ALERTS, Gateway, payload
from tests.support.toy import acts_done, write_world

KINDS = {k: {"mode": "auto", "cooldown_s": 0, "attempts": 1000, "approval_ttl_s": 3600} for k in ("toy-fix", "toy-restart")}
POLICY = {"mode": "auto", "kinds": KINDS, "budget": {"nodes": 100, "share": 1.0}, "storm": {"settle_s": 0.05, "alike": 1000}}


class GatewayFleet:
    """`size` sick targets behind one gateway. Tests take some of them each; the gateway reads changed files again."""

    def __init__(self, rig: Rig, home: Path, size: int) -> None:
        self.rig, self.home = rig, home
        self.free = [f"g{uuid4().hex[:8]}" for _ in range(size)]
        self.name = f"f-{self.free[0]}"
        self.data: dict[str, Any] = {"name": self.name, "nodes": [{"name": n, "local": True} for n in self.free]}
        self.file, self.policy = home / "fleet.yaml", home / "policy.yaml"
        self.names: list[str] = []
        self.not_taken = 0  # posts without a 200: the sender came again
        for n in self.free:
            write_world(rig.worlds, n, sick=True, identity=f"pid of {n}")
        self.file.write_text(yaml.safe_dump(self.data), encoding="utf-8")
        self.policy.write_text(yaml.safe_dump(POLICY), encoding="utf-8")
        self.gateway = Gateway(home, self.file, self.policy)
        self.gateway.start()

    def take(self, size: int, mode: str = "auto", **policy: Any) -> list[str]:
        """The next targets that no test has used, with this mode and these fields of the policy that differ."""
        self.names, self.free = self.free[:size], self.free[size:]
        assert len(self.names) == size
        notes.world("(toy)", self.acts)
        self.write(ALERTS.replace("mode: auto", f"mode: {mode}"), POLICY | policy)
        return self.names

    def write(self, alerts: str, policy: dict[str, Any], fleet: dict[str, Any] | None = None) -> None:
        """Other files from now on."""
        self.gateway.file.write_text(alerts, encoding="utf-8")
        self.policy.write_text(yaml.safe_dump(policy), encoding="utf-8")
        self.file.write_text(yaml.safe_dump(fleet or self.data), encoding="utf-8")

    def runs(self, *nodes: str) -> list[Any]:
        """Runs on these nodes, or on all."""
        found = store.find_runs([store.RUNBOOK_TAG, "runbook:zombie-gpu"])
        wanted = nodes or tuple(self.names)
        return [r for r in found if r.parameters.get("target") in wanted]

    def acts(self) -> list[Any]:
        """Action runs on the targets that were taken last."""
        found = store.find_runs([store.ACT_TAG])
        return [a for a in found if a.parameters.get("about", {}).get("target") in self.names]

    def fixes(self, node: str) -> int:
        """How often something was fixed there."""
        return len([x for x in acts_done(self.rig.worlds, node) if x.startswith("fix")])

    def send(self, bodies: list[list[dict[str, Any]]], at_once: int = 8, limit_s: float = 300) -> list[dict[str, Any]]:
        """Each body until it is answered 2xx, like a sender that keeps what was not taken. Returns all answers."""
        deadline = time.monotonic() + limit_s

        def one(body: list[dict[str, Any]]) -> list[dict[str, Any]]:
            while True:
                try:
                    response = self.gateway.post(payload(body))
                    if response.status_code == 200:
                        return list(response.json()["alerts"])
                    assert response.status_code == 503, response.text
                except httpx.TransportError:
                    pass
                self.not_taken += 1
                assert time.monotonic() < deadline, self.gateway.log()
                time.sleep(0.3)

        with ThreadPoolExecutor(at_once) as pool:
            return [a for answers in pool.map(one, bodies) for a in answers]

    def send_in_background(self, bodies: list[list[dict[str, Any]]], answers: list[dict[str, Any]]) -> threading.Thread:
        """`send` in a thread; the answers are in the list when it has ended."""
        thread = threading.Thread(target=lambda: answers.extend(self.send(bodies, at_once=4)))
        thread.start()
        return thread

    def carry_on(self, limit_s: float = 300) -> None:
        """What reaper and workers do until every run has ended; time is passed on, nothing is waited for."""
        deadline = time.monotonic() + limit_s
        while [r for r in self.runs() if not (r.state and r.state.is_final())]:
            assert time.monotonic() < deadline, [(r.name, r.state) for r in self.runs()]
            sweep(utc_now() + timedelta(seconds=200))
            self.rig.wait(self.rig.start_work(self.file))
