"""The ray-job runbook on a real cluster through the engine; a raylet that is killed, a supervisor that outlives its job."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.faults.real import RealWorld
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import DASHBOARD, GCS, HEAD, RayCluster
from tests.support.ray_worker import start_argv

WORKER = "127.0.0.3"
LEFT = """
import os, ray
ray.init(address="GCS", _node_ip_address="HEAD")
class JobSupervisor:
    def ping(self): return 1
    def stop(self): os._exit(0)
name = "_ray_internal_job_actor_THIS"
kept = dict(name=name, namespace="SUPERVISOR_ACTOR_RAY_NAMESPACE", lifetime="detached", num_cpus=1)
ray.get(ray.remote(JobSupervisor).options(**kept).remote().ping.remote())
"""


def engine_world(ray: RayCluster, rig: Rig, folder: Path, dashboard: str) -> RealWorld:
    """ray-job on this cluster, through the engine; a raylet is started again by `ray start` in the namespace."""
    start = raylet_start(ray)
    tag = uuid4().hex[:4]  # other owners for each world: a raylet whose start was not seen to work is not started unasked
    head, worker = f"head-{tag}", f"w3-{tag}"
    fleet: dict[str, Any] = {
        "nodes": [{"name": head, "local": True}, {"name": worker, "local": True}],
        "ray": {
            "head": head, "dashboard": dashboard, "temp_dir": str(ray.temp), "restart_raylet": {worker: start},
            "nodes": {"127.0.0.2": head, WORKER: worker},
        },
    }  # fmt: skip
    return RealWorld(rig, folder, "ray-job", head, fleet, ("continue-processes", "restart-raylet", "stop-ray-job"))


def raylet_start(ray: RayCluster) -> list[str]:
    """The command that starts the worker's raylet in the namespace."""
    env = [f"{k}={v}" for k, v in ray.env().items() if k.startswith(("HOME", "PATH", "RAY_"))]
    return [*ray.inside, "env", *env, *start_argv(ray, WORKER)]


def raylets(ray: RayCluster, ip: str = WORKER) -> list[int]:
    """Pids of the cluster's raylets at an address."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                if words.split("\0")[0].endswith("/raylet") and str(ray.temp) in words and f"={ip}\0" in words:
                    found.append(int(entry.name))
    return found


def kill_raylet(ray: RayCluster, ip: str = WORKER) -> None:
    """SIGKILL, until the head calls the node dead."""
    for pid in raylets(ray, ip):
        os.kill(pid, signal.SIGKILL)
    url = f"{DASHBOARD}/api/v0/nodes?detail=1&limit=1000"
    end = time.monotonic() + 60
    while True:
        rows = json.loads(ray.run("curl", "-s", url).stdout)["data"]["result"]["result"]
        if not any(r["node_ip"] == ip and r["state"] == "ALIVE" for r in rows):
            return
        assert time.monotonic() < end, "the head still lists it"
        time.sleep(0.5)


def leave_supervisor(ray: RayCluster, job: str) -> None:
    """A living actor with the name of that job's supervisor: what older versions leave after a start that timed out."""
    program = LEFT.replace("THIS", job).replace("GCS", GCS).replace("HEAD", HEAD)
    done = ray.run(str(ray.bin / "python"), "-c", program, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert supervisors(ray, job), done.stderr[-2000:]


def supervisors(ray: RayCluster, job: str) -> list[str]:
    """Ids of the living supervisors of a job."""
    url = f"{DASHBOARD}/api/v0/actors?detail=1&limit=1000"
    rows = json.loads(ray.run("curl", "-s", url).stdout)["data"]["result"]["result"]
    return [r["actor_id"] for r in rows if r["name"] == f"_ray_internal_job_actor_{job}" and r["state"] == "ALIVE"]
