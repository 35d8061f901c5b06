"""A job that changes while it is stopped, and a raylet that somebody else starts in the same moment."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from runbooks.core.ray_config import RayCluster
from runbooks.core.ray_view import RayNode
from tasks.context import ActionRefused, Context
from tasks.ray import act
from tasks.ray.probes import ray_stop_job
from tasks.remote.unseen import UNSEEN
from tasks.transport.base import CommandResult, TransportError
from tests.support.racing import meanwhile

IP, START = "127.0.0.3", ("ray", "start")


class Dashboard:
    """One job of a head, as its dashboard answers about it."""

    def __init__(self) -> None:
        self.job: dict[str, Any] = {"status": "RUNNING", "start_time": 1000}
        self.stopped: list[int] = []  # start times of those that were
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                return

            def do_GET(self) -> None:
                self.answer(outer.job)

            def do_POST(self) -> None:
                runs = outer.job["status"] == "RUNNING"
                if runs:
                    outer.stopped.append(outer.job["start_time"])
                    outer.job["status"] = "STOPPED"
                self.answer({"stopped": runs})

            def answer(self, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.ask = {"dashboard": url, "submission_id": "j", "state": "RUNNING", "actor_id": ""}


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    made = Dashboard()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_job_that_ends_or_is_submitted_anew_while_it_is_stopped(dashboard: Dashboard) -> None:
    """Before the look it is refused; after it, a new one under that id is told as a failure, and one that ended as not stopped."""
    ends, anew = {"status": "SUCCEEDED"}, {"status": "RUNNING", "start_time": 2000}
    with meanwhile(ray_stop_job, "ask", lambda: dashboard.job.update(ends), before=True):
        assert "SUCCEEDED now, not RUNNING" in ray_stop_job.main(dashboard.ask)["refused"]
    assert dashboard.stopped == []
    dashboard.job["status"] = "RUNNING"
    with meanwhile(ray_stop_job, "ask", lambda: dashboard.job.update(ends)):
        assert ray_stop_job.main(dashboard.ask)["said"] == ["stop request for j (it was RUNNING): stopped=False"]
    dashboard.job["status"] = "RUNNING"
    with meanwhile(ray_stop_job, "ask", lambda: dashboard.job.update(anew)):
        assert "submitted again under that id, and the new one (now STOPPED)" in ray_stop_job.main(dashboard.ask)["failed"]
    dashboard.job["status"] = "RUNNING"
    assert ray_stop_job.main(dashboard.ask)["said"] == ["stop request for j (it was RUNNING): stopped=True"]
    assert dashboard.stopped == [2000, 2000]


class RayWorker:
    """A node whose raylets somebody starts: what its probe and the head say of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.raylets: list[str] = []
        monkeypatch.setattr(act, "run_probe", lambda *_, **__: {"raylet_alive": bool(self.raylets)})
        monkeypatch.setattr(act, "nodes_at", lambda *_: [RayNode(node_id=n, ip=IP, alive=True) for n in self.raylets])
        monkeypatch.setattr(act, "wait_for_new", lambda *_: ["joined"])
        monkeypatch.setattr(act, "command", self.start)

    def start(self, *_: object) -> CommandResult:
        self.theirs("ours")
        return CommandResult(command="ray start", exit=0, out="", err="", seconds=0.1)

    def theirs(self, name: str = "theirs") -> None:
        self.raylets.append(name)

    def restart(self) -> tuple[str, ...]:
        ray = RayCluster(head="head", dashboard="http://127.0.0.1:1", nodes={IP: "w3"}, restart_raylet={"w3": START})
        fleet = Fleet(nodes=(Node(name="head", local=True), Node(name="w3", local=True)), ray=ray)
        step = Step(kind="restart-raylet", owner="w3", args={"node": "w3", "head": "head", "start": list(START)}, commands=(), effect="")
        open_host: Callable[[Node], Any] = lambda _: None  # noqa: E731
        return act.restart_raylet(step, Context(fleet=fleet, target="w3", open_host=open_host)).said


@pytest.mark.parametrize(("call", "before"), [("nodes_at", True), ("nodes_at", False), ("run_probe", True)])
def test_somebody_starts_the_raylet_before_the_last_look(monkeypatch: pytest.MonkeyPatch, call: str, before: bool) -> None:
    worker = RayWorker(monkeypatch)
    with meanwhile(act, call, worker.theirs, before=before), pytest.raises(ActionRefused, match="a raylet runs on w3"):
        worker.restart()
    assert worker.raylets == ["theirs"]


def test_somebody_starts_the_raylet_in_the_moment_that_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = RayWorker(monkeypatch)
    with meanwhile(act, "run_probe", worker.theirs), pytest.raises(TransportError, match="theirs, ours are ALIVE"):
        worker.restart()
    worker.raylets.clear()
    assert UNSEEN in worker.restart()
