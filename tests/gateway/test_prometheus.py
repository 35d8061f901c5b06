"""The rules by promtool, and real alerts: Prometheus → Alertmanager → gateway → runs on the Prefect server."""

import subprocess
import time
from pathlib import Path

import pytest
from prefect.client.schemas.objects import FlowRun

from flows import store
from tests.support.engine_rig import REPO
from tests.support.gateway import TOKEN
from tests.support.gateway_fleet import POLICY, GatewayFleet
from tests.support.need import need_program
from tests.support.prometheus import Alerting, Exporter

DEPLOYMENTS = REPO / "deployments"
@pytest.mark.parametrize("what", [("check", "rules", "prometheus-rules.yaml"), ("test", "rules", "prometheus-rules.test.yaml")])
def test_promtool_is_content_with_the_rules(what: tuple[str, ...]) -> None:
    tool = need_program("promtool", "prometheus")
    found = subprocess.run([tool, *what], cwd=DEPLOYMENTS, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout + found.stderr


def test_amtool_is_content_with_the_example() -> None:
    tool = need_program("amtool", "prometheus-alertmanager")
    found = subprocess.run([tool, "check-config", "alertmanager.example.yml"], cwd=DEPLOYMENTS, capture_output=True, timeout=60)
    assert found.returncode == 0, found.stdout


def test_real_alerts_become_runs(fleet: GatewayFleet, tmp_path: Path) -> None:
    [node] = fleet.take(1)
    gateway, exporter = fleet.gateway, Exporter()
    fleet.write((DEPLOYMENTS / "alerts.yaml").read_text(encoding="utf-8"), POLICY, fleet.data | sections(node))
    exporter.lines = [
        f'DCGM_FI_DEV_GPU_UTIL{{Hostname="{node}",gpu="0"}} 0',
        f'DCGM_FI_DEV_FB_USED{{Hostname="{node}",gpu="0"}} 8700',
        f'container_last_seen{{name="trainer",node="{node}"}} 1',
        f'gpu_worker_spawning_since_seconds{{worker="{node}"}} 1',
    ]
    exporter.rising = [
        f'gpu_checkpoint_failures_total{{job_name="train",node="{node}"}}',
        f'gpu_rendezvous_failures_total{{rendezvous="{node}-rdzv",run_id="job1"}}',
    ]
    alerting = Alerting(tmp_path, exporter, gateway.url, TOKEN)
    named = {("zombie-gpu", node), ("container-death", node), ("checkpoint-fallback", node)}
    wanted = named | {("stale-rendezvous", f"{node}-rdzv"), ("stuck-spawning", f"worker/{node}")}
    try:
        alerting.start()
        deadline = time.monotonic() + 120
        while set(runs_on(node)) < wanted:
            assert time.monotonic() < deadline, (sorted(wanted - set(runs_on(node))), gateway.log())
            time.sleep(0.2)
        gateway.quiet()  # a run still at work would take the end of its alert
        exporter.lines, exporter.rising = [], []
        deadline = time.monotonic() + 120
        while not gateway.metric('gpu_runbooks_gateway_alerts_total{outcome="nothing-open"'):
            assert time.monotonic() < deadline, (gateway.log(), alerting.log())
            time.sleep(0.2)
    finally:
        alerting.stop()
        exporter.close()
    gateway.quiet()
    ended = runs_on(node)
    assert set(ended) == wanted  # one each, and all of them ended with a report
    assert all(r.state and r.state.is_final() and r.labels.get("report") for r in ended.values())


def sections(node: str) -> dict[str, object]:
    """What the runbooks besides zombie-gpu need in the fleet file."""
    return {
        "containers": [{"name": "trainer", "node": node}],
        "rendezvous": [{"name": f"{node}-rdzv", "endpoints": ["http://127.0.0.1:9"], "nodes": [node]}],
        "orchestrator": {},
    }


def runs_on(node: str) -> dict[tuple[str, str], FlowRun]:
    found = store.find_runs([store.RUNBOOK_TAG, "alert"], limit=50)
    rows = {(str(r.labels["runbook"]), str(r.parameters["target"])): r for r in found}
    return {row: r for row, r in rows.items() if node in row[1]}
