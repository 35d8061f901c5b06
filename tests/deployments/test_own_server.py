"""A Prefect server of one's own, never used before: the five commands at the head of prefect.yaml, as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deployments.catalog import programs
from deployments.ports import free_port
from deployments.prefect_yaml import PATH
from flows.records import FLOWS
from tests.support.engine_rig import REPO
from tests.support.waiting import until_answered

LIMIT_S = 180.0


class OwnServer:
    """`prefect server start` with an empty home, and what the head of prefect.yaml says to do with it."""

    def __init__(self, home: Path) -> None:
        self.home, port = home, free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        self.fleet = home / "fleet.yaml"
        self.fleet.write_text(yaml.safe_dump({"name": "own", "nodes": [{"name": "here", "local": True}]}))
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "GPU_RUNBOOKS_"))}
        own = {"PREFECT_HOME": str(home / "prefect"), "GPU_RUNBOOKS_HOME": str(home / "state"), "DO_NOT_TRACK": "1"}
        quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        files = {"GPU_RUNBOOKS_FLEET": str(self.fleet), "GPU_RUNBOOKS_POLICY": str(REPO / "deployments/policy.example.yaml")}
        self.env = plain | own | quiet | files | {"PREFECT_API_URL": self.api, "PREFECT_UI_API_URL": self.api}
        self.processes = [self.start("prefect server start --host 127.0.0.1 --port " + str(port))]
        until(lambda: httpx.get(f"{self.api}/health").is_success)

    def start(self, line: str) -> "subprocess.Popen[bytes]":
        """A command that stays."""
        log = (self.home / "log").open("ab")
        return subprocess.Popen(shlex.split(line), env=self.env, cwd=REPO, stdout=log, stderr=log)

    def do(self, line: str) -> None:
        """A command that must succeed."""
        argv = shlex.split(line)
        done = subprocess.run(argv, env=self.env, cwd=REPO, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, path: str, **body: Any) -> Any:
        """POST to the API."""
        answer = httpx.post(f"{self.api}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def stop(self) -> None:
        """All of it, by pid."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)


def until(what: Callable[[], Any]) -> Any:
    return until_answered(what, LIMIT_S)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnServer]:
    made = OwnServer(tmp_path)
    yield made
    made.stop()


def commands() -> list[str]:
    """The commands of prefect.yaml's head, without the first, which is the environment."""
    lines = re.findall(r"^#   ((?:prefect|python) .*?) *(?:# .*)?$", PATH.read_text(encoding="utf-8"), re.M)
    assert len(lines) == 4, lines
    return lines


def ids(own: OwnServer) -> dict[str, str]:
    found = own.ask("/deployments/filter", limit=200)
    assert len({d["name"] for d in found}) == len(found)
    return {d["name"]: d["id"] for d in found}


@pytest.mark.soak
def test_prefect_deploy_all_on_a_server_never_used_before(own: OwnServer) -> None:
    pool, deploy, worker, reaper = commands()
    own.do(pool)
    own.do(deploy)
    first = ids(own)
    assert set(first) == {s.name for s in programs()}
    own.do(pool)
    own.do(deploy)  # again: the same ones
    assert ids(own) == first
    for spec in programs():
        d = next(x for x in own.ask("/deployments/filter", limit=200) if x["name"] == spec.name)
        assert (d["entrypoint"], d["description"], d["work_pool_name"]) == (spec.entrypoint, spec.description, "gpu-runbooks")
        assert d["parameters"].get("fleet") == str(own.fleet)
        assert len(d["schedules"]) == (1 if spec.cron or spec.every_s else 0)
    form = next(x for x in own.ask("/deployments/filter", limit=200) if x["name"] == "zombie-gpu")["parameter_openapi_schema"]
    assert "here" in str(form["properties"]["target"])
    own.processes += [own.start(worker), own.start(reaper)]
    run = own.ask(f"/deployments/{first['zombie-gpu']}/create_flow_run", parameters={"target": "here"})["id"]
    ended = until(lambda: (r := httpx.get(f"{own.api}/flow_runs/{run}").json())["end_time"] and r)
    assert ended["labels"]["outcome"] in ("not-applicable", "healthy", "sick", "cannot-tell"), ended["state"]
    found = until(lambda: (f := [x["name"] for x in own.ask("/flows/filter", limit=200)]) and set(FLOWS) <= set(f) and f)
    assert set(ids(own)) == set(first), f"the reaper made {found}, and no deployment of them"
