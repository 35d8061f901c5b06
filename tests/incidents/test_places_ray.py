# ruff: noqa: E501 - lines of logs and answers as they are
"""Ray jobs that never ran or wait for nothing: a dashboard that answers, and the head's own log files, read by the product's readers."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.ray_config import RayCluster
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.ray.diagnose import diagnose
from runbooks.ray.limits import Limits
from tasks.context import Context
from tasks.ray.read import gather_ray_job
from tasks.transport.local import LocalHost

JOB = "raysubmit_8vQm3tXk2Lw5cRzP"
STALE = "67216fc183ee84a05c9f779ba8a36d770d17681e641e7de5c792f4a5"
ALIVE = "0" * 8 + STALE[8:]
RECORD: dict[str, Any] = {
    "type": "SUBMISSION", "job_id": None, "submission_id": JOB, "driver_info": None, "status": "PENDING", "entrypoint": "python train.py",
    "message": "Job has not started yet.", "error_type": None, "start_time": 1_772_452_200_000, "end_time": None, "metadata": {},
    "runtime_env": {}, "driver_agent_http_address": None, "driver_node_id": None, "driver_exit_code": None,
}  # fmt: skip
NODE: dict[str, Any] = {
    "node_id": ALIVE, "node_ip": "127.0.0.1", "is_head_node": True, "state": "ALIVE", "state_message": None, "node_name": "127.0.0.1",
    "resources_total": {"CPU": 8.0, "node:127.0.0.1": 1.0}, "labels": {}, "start_time_ms": 1_772_450_000_000, "end_time_ms": 0,
}  # fmt: skip
WORKER = NODE | {"node_id": "1" * 56, "node_ip": "127.0.0.2", "is_head_node": False, "resources_total": {"CPU": 64.0, "GPU": 8.0}}
USAGE: dict[str, Any] = {"usage": {"CPU": [8.0, 72.0], "GPU": [8.0, 8.0]}, "resourceDemand": [], "pgDemand": []}
MONITOR = """\
{at}\tERROR autoscaler.py:226 -- ray node should not be None when the instance is running ray: instance=AutoscalerInstance(cloud_instance_id='gpu-h100-worker-gsv8l', ray_node=None, im_instance=instance_id: "02159b20-4808-45a7-8f7c-a07e4a3b8178"
cloud_instance_id: "gpu-h100-worker-gsv8l"
node_id: "%s"
status: RAY_RUNNING
status_history { instance_status: RAY_STOP_REQUESTED  timestamp_ns: 1779066921505560449 }
status_history { instance_status: RAY_RUNNING
AssertionError
"""


class Head:
    """A dashboard that answers, and the folder with the head's logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs: list[Any] = []
        self.nodes: Any = [NODE, WORKER]
        self.actors: list[Any] = []
        self.groups: list[Any] = []
        self.usage: Any = USAGE
        self.logs: Any = ""
        self.scaler: dict[str, Any] = {}
        self.port = 0
        self.host: Callable[[str], LocalHost] = LocalHost

    def answer(self, path: str) -> Any:
        lists = {"nodes": self.nodes, "actors": self.actors, "placement_groups": self.groups}
        for name, rows in lists.items():
            if path.startswith(f"/api/v0/{name}") and not isinstance(rows, list):
                return {"result": False, "msg": "no list"}
            if path.startswith(f"/api/v0/{name}"):
                return {"result": True, "msg": "", "data": {"result": {"result": rows, "total": len(rows)}}}
        if path.startswith("/api/cluster_status"):
            return {"result": True, "data": {"clusterStatus": {"loadMetricsReport": self.usage, "autoscalerReport": self.scaler}}}
        if path == "/api/jobs/":
            return self.jobs
        return {"logs": self.logs} if path.endswith("/logs") else {"ray_version": "2.46.0"}

    def log(self, name: str, text: str) -> None:
        """A file of the session's log folder."""
        path = self.folder / "session_latest" / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judged(self, **options: str) -> Diagnosis:
        """The cluster as it stands, read and judged."""
        ray = RayCluster(head="head", dashboard=f"http://127.0.0.1:{self.port}", temp_dir=str(self.folder), nodes={"127.0.0.1": "head"})
        fleet = Fleet(nodes=(Node(name="head", local=True),), ray=ray)
        context = Context(fleet=fleet, target="head", open_host=lambda n: self.host(n.name), options={"job": JOB} | options)
        seen = gather_ray_job(context)
        again = type(seen).model_validate_json(seen.model_dump_json())
        return diagnose(again, Limits(**load_runbook("ray-job").limit_values()))


@contextmanager
def serving(head: Head) -> Iterator[Head]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(head.answer(self.path)).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    head.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield head
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with serving(Head(tmp_path / "ray")) as found:
        found.log("monitor.log", "2026-05-18 09:42:00,000\tINFO autoscaler.py:190 -- No updates\n")
        yield found


def slugs(found: Diagnosis) -> list[tuple[str, Certainty]]:
    return [(c.slug, c.certainty) for c in found.causes if not c.benign]


@pytest.mark.incident("RY02", came="right", fed="readers", known=True)
@pytest.mark.parametrize("message", ["", None])
def test_failed_before_a_driver_was_made(head: Head, message: str | None) -> None:
    head.jobs = [RECORD | {"status": "FAILED", "message": message, "end_time": RECORD["start_time"] + 2000}]
    head.log("events/event_JOBS.log", json.dumps({"message": f"Started a ray job {JOB}."}) + "\n" + json.dumps(
        {"message": f"Completed a ray job {JOB} with a status PENDING."}) + "\n")  # fmt: skip
    found = head.judged()
    assert slugs(found) == [("driver-never-ran", Certainty.CONFIRMED)]
    assert any("with a status PENDING" in x for x in found.causes[0].evidence)
    assert any("own code" in x for x in found.must_not)
    assert any("gcs_server.out" in x for x in found.do_now)
    assert not found.plans


@pytest.mark.parametrize(
    ("change", "logs", "slug"),
    [
        ({"driver_exit_code": 3, "message": "Job entrypoint command failed with exit code 3"}, "", "entrypoint-failed"),
        ({"job_id": "02000000"}, "", "entrypoint-failed"),
        ({}, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'sglang'\n", "entrypoint-failed"),
        ({"error_type": "RUNTIME_ENV_SETUP_FAILURE", "message": "runtime_env setup failed: pip"}, "", "runtime-env-failed"),
        ({"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": "Job supervisor actor died."}, "", "supervisor-died"),
    ],
)
@pytest.mark.incident("RY02", came="right", fed="readers", known=True, twin="something of it ran, or its record says why")
def test_something_of_it_ran(head: Head, change: dict[str, Any], logs: str, slug: str) -> None:
    head.jobs, head.logs = [RECORD | {"status": "FAILED", "message": None} | change], logs
    assert slugs(head.judged())[0][0] == slug


@pytest.mark.incident("RY02", came="right", fed="readers", known=True, twin="the driver's log was not read")
def test_what_was_not_read_keeps_it_from_being_sure(head: Head) -> None:
    head.jobs, head.logs = [RECORD | {"status": "FAILED", "message": ""}], None
    head.logs = 7  # not a text: cannot be parsed
    assert slugs(head.judged()) == [("driver-never-ran", Certainty.LIKELY)]


def pending(what: dict[str, float]) -> list[Any]:
    bundle = {"unit_resources": what, "bundle_id": {}, "node_id": None}
    return [{"placement_group_id": "a1", "name": "", "state": "PENDING", "creator_job_id": "02000000", "bundles": [bundle]}]


@pytest.mark.incident("T2-08", came="right", fed="readers", known=True)
def test_no_node_has_it_and_the_autoscaler_stumbles_over_one_record(head: Head) -> None:
    head.jobs = [RECORD | {"status": "RUNNING", "job_id": "02000000"}]
    head.nodes = [NODE]
    head.usage = {"usage": {"CPU": [0.0, 8.0]}, "pgDemand": [[{"GPU": 8}, 1]]}
    head.groups = pending({"GPU": 8.0})
    head.log("monitor.log", "".join((MONITOR % STALE).replace("{at}", f"2026-05-18 09:42:{s:02},563") for s in (3, 23, 43, 58)))
    found = head.judged()
    assert slugs(found) == [("autoscaler-stuck", Certainty.CONFIRMED), ("no-such-resource", Certainty.CONFIRMED)]
    assert any("gpu-h100-worker-gsv8l" in x and STALE[:12] in x for x in found.causes[0].evidence)
    assert not any("0 of 0" in x for c in found.causes for x in c.evidence)
    assert any("recreate the whole cluster" in x for x in found.must_not)
    assert not found.plans


@pytest.mark.incident("T2-08", came="right", fed="readers", known=True, twin="the record's node lives, or the log is old, or the error came once")
def test_an_autoscaler_that_goes_on(head: Head, tmp_path: Path) -> None:
    head.jobs, head.groups = [RECORD | {"status": "RUNNING", "job_id": "02000000"}], pending({"GPU": 8.0})
    many = "".join((MONITOR % ALIVE).replace("{at}", f"2026-05-18 09:42:{s:02},563") for s in (3, 23, 43, 58))
    head.log("monitor.log", many)
    assert slugs(head.judged()) == [("autoscaler-stuck", Certainty.LIKELY), ("resources-busy", Certainty.CONFIRMED)]
    head.log("monitor.log", (MONITOR % STALE).replace("{at}", "2026-05-18 09:42:03,563"))
    assert slugs(head.judged()) == [("resources-busy", Certainty.CONFIRMED)]
    head.log("monitor.log", many)
    an_hour_ago = time.time() - 3600
    os.utime(head.folder / "session_latest" / "logs" / "monitor.log", (an_hour_ago, an_hour_ago))
    assert slugs(head.judged()) == [("resources-busy", Certainty.CONFIRMED)]


@pytest.mark.parametrize(
    ("what", "nodes", "slug"),
    [
        ({"GPU": 8.0}, [NODE, WORKER], "resources-busy"),  # others hold them
        ({"GPU": 16.0}, [NODE, WORKER, WORKER | {"node_id": "2" * 56}], "no-such-resource"),  # more than one node has
        ({"gpu": 8.0}, [NODE, WORKER], "no-such-resource"),  # misspelt
        ({"GPU": 8.0}, [NODE, WORKER | {"state": "DEAD"}], "no-such-resource"),  # the node that had them is gone
    ],
)
@pytest.mark.incident("T2-08", came="right", fed="readers", known=True, twin="others hold it; more than one node has; another name; its node died")
def test_waiting_in_turn_or_for_a_node(head: Head, what: dict[str, float], nodes: list[Any], slug: str) -> None:
    head.jobs, head.nodes, head.groups = [RECORD | {"status": "RUNNING", "job_id": "02000000"}], nodes, pending(what)
    assert slugs(head.judged())[-1][0] == slug


def test_a_node_that_is_on_its_way_is_waited_for(head: Head) -> None:
    head.jobs, head.nodes, head.groups = [RECORD | {"status": "RUNNING", "job_id": "02000000"}], [NODE], pending({"GPU": 8.0})
    head.scaler = {"pendingNodes": [["10.0.0.9", "gpu-worker", "setting-up"]], "pendingLaunches": {}, "failedNodes": []}
    found = head.judged()
    assert slugs(found) == [("no-such-resource", Certainty.POSSIBLE)]
    assert found.state is State.CANNOT_TELL


@pytest.mark.incident("T2-08", came="right", fed="readers", known=True, twin="a reading lost")
def test_what_was_not_read_is_not_claimed(head: Head) -> None:
    head.jobs, head.groups = [RECORD | {"status": "RUNNING", "job_id": "02000000"}], pending({"H100": 8.0})
    head.nodes = None
    assert slugs(head.judged())[-1] == ("no-such-resource", Certainty.LIKELY)
    head.nodes, head.usage, head.groups = [NODE, WORKER], None, pending({"GPU": 8.0})
    found = head.judged()
    assert slugs(found) == [("resources-busy", Certainty.POSSIBLE)]
    assert not any("enough is free" in x for c in found.causes for x in c.evidence)


@pytest.mark.incident("RY01", came="right", fed="readers", known=True)
def test_the_supervisor_of_a_failed_job_holds_the_gpu(head: Head) -> None:
    head.jobs = [RECORD | {"status": "FAILED", "message": "Job supervisor actor failed to start within 900.0 seconds. This may be because…"}]
    supervisor = {"actor_id": "a1", "class_name": "JobSupervisor", "state": "ALIVE", "job_id": "01000000", "pid": 4242, "node_id": ALIVE,
                  "name": f"_ray_internal_job_actor_{JOB}", "required_resources": {"GPU": 1.0}, "death_cause": None}  # fmt: skip
    head.actors = [supervisor]
    assert {("start-timed-out", Certainty.CONFIRMED), ("supervisor-left", Certainty.CONFIRMED)} <= set(slugs(head.judged()))
    head.actors = [supervisor | {"name": "_ray_internal_job_actor_another"}]
    assert "supervisor-left" not in dict(slugs(head.judged())), "a supervisor of another job"


@pytest.mark.parametrize("status", ["FAILED", "PENDING", "RUNNING", "STOPPED", "SUCCEEDED"])
@pytest.mark.parametrize("how", ["absent", "null"])
def test_no_field_that_may_be_missing_is_needed(head: Head, status: str, how: str) -> None:
    """Versions differ in what they send: each field of a job, an actor, a node and a group missing or null is never an exception."""
    whole: dict[str, list[Any]] = {
        "jobs": [RECORD | {"status": status}], "nodes": [NODE], "groups": pending({"GPU": 8.0}),
        "actors": [{"actor_id": "a1", "class_name": "T", "state": "DEAD", "job_id": "02000000", "pid": 1, "node_id": ALIVE, "name": "n",
                    "required_resources": {}, "death_cause": {"actor_died_error_context": {"error_message": "x", "reason": "WORKER_DIED"}}}],
    }  # fmt: skip
    for kind, rows in whole.items():
        for field in rows[0]:
            for name, value in whole.items():
                setattr(head, name, value)
            less = {k: v for k, v in rows[0].items() if k != field}
            setattr(head, kind, [less if how == "absent" else rows[0] | {field: None}])
            head_seen = _quick(head)
            assert head_seen.headline


def _quick(head: Head) -> Diagnosis:
    """The same without HTTP and processes: parsers and judge alone."""
    from runbooks.core.reading import Known, Unknown, UnknownReason
    from runbooks.parsers.ray import parse_nodes
    from runbooks.ray.evidence import Evidence
    from runbooks.ray.parsers import ray_job as parse

    def read(path: str, parser: Any) -> Any:
        try:
            return Known(value=parser(json.dumps(head.answer(path))))
        except (ValueError, KeyError, TypeError) as e:  # what the reader takes for an answer of another form
            return Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e))

    jobs = read("/api/jobs/", lambda t: parse.parse_jobs(t, str))
    seen = Evidence(
        cluster="head", taken_at="2026-03-02T12:00:00Z", submission_id=JOB, dashboard="http://x",
        job=Known(value=jobs.value[0]) if isinstance(jobs, Known) else jobs, other_jobs=jobs, nodes=read("/api/v0/nodes", parse_nodes),
        actors=read("/api/v0/actors", lambda t: parse.parse_actors(t, str)), groups=read("/api/v0/placement_groups", parse.parse_groups),
        usage=read("/api/cluster_status", parse.parse_usage), driver_log=Known(value=()),
    )  # fmt: skip
    return diagnose(seen, Limits(**load_runbook("ray-job").limit_values()))
