"""The large setting run: PostgreSQL, Redis, API and services apart, two workers, reaper and gateway, by compose.yaml's commands."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.compose import HERE, SECRETS, Compose
from tests.support.gateway import firing, payload
from tests.support.waiting import until_answered

LIMIT_S = 240.0


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    tmp_path.chmod(0o755)
    made = Compose(tmp_path, {"name": "large", "nodes": [{"name": f"n{i}", "local": True} for i in range(2)]})
    yield made
    made.close()


@pytest.mark.soak
def test_an_alert_is_diagnosed_by_a_worker_and_workers_stop_gently(compose: Compose) -> None:
    api = f"http://127.0.0.1:{compose.server_port}/api"
    client = httpx.Client(auth=("admin", SECRETS["PREFECT_AUTH"].split(":")[1]), timeout=30)
    compose.do("migrate")
    compose.start("server")
    compose.start("services")
    until(compose, lambda: client.get(f"{api}/ready").is_success)
    assert httpx.post(f"{api}/deployments/filter", json={}).status_code == 401
    pool = ("prefect", "work-pool", "create", "gpu-runbooks", "--type", "process", "--overwrite")
    deploy = ("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(HERE / "prefect.yaml"))
    compose.do("worker", *pool)
    compose.do("worker", *deploy)
    for name in ("worker-1", "worker-2"):
        compose.start("worker", name)
    compose.start("reaper")
    compose.start("gateway")
    gateway = f"http://127.0.0.1:{compose.gateway_port}"
    until(compose, lambda: httpx.get(f"{gateway}/healthz").is_success)

    def ask(alert: dict[str, Any]) -> str:
        bearer = {"authorization": f"Bearer {SECRETS['GATEWAY_TOKEN']}"}
        answer = httpx.post(f"{gateway}/alerts/alertmanager", json=payload([alert]), headers=bearer)
        assert answer.status_code == 200, answer.text + compose.log()
        return str(answer.json()["alerts"][0]["run"])

    def ended(run: str) -> Any:
        found = client.get(f"{api}/flow_runs/{run}").json()
        return found if found["end_time"] else None

    for run in [ask(firing(node, "GpuZombie")) for node in ("n0", "n1")]:
        found = until(compose, partial(ended, run))
        assert found["labels"]["outcome"] in ("not-applicable", "healthy", "sick", "cannot-tell"), found["state"]
    assert compose.stop("worker-1", 120) == 0, compose.log()  # drained, then stopped: the other one goes on
    assert not client.get(f"{api}/work_pools/gpu-runbooks").json()["is_paused"]
    until(compose, partial(ended, ask(firing("n0", "GpuStuck", fingerprint="again"))))
    assert compose.stop("gateway", 60) == 0


def until(compose: Compose, what: Callable[[], Any]) -> Any:
    return until_answered(what, LIMIT_S, compose.log)
