"""The rules by promtool, and real alerts: Prometheus → Alertmanager → gateway → runs on the Prefect server."""

import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from flows import store
from tests.support.engine_rig import REPO, Rig
from tests.support.gateway import TOKEN, Gateway
from tests.support.need import need_program
from tests.support.prometheus import Alerting, Exporter

DEPLOYMENTS = REPO / "deployments"
FLEET = """
name: {name}
nodes: [{{name: {name}, local: true}}]
containers: [{{name: trainer, node: {name}}}]
rendezvous: [{{name: {name}-rdzv, endpoints: ['http://127.0.0.1:9'], nodes: [{name}]}}]
orchestrator: {{}}
"""


@pytest.mark.parametrize("what", [("check", "rules", "prometheus-rules.yaml"), ("test", "rules", "prometheus-rules.test.yaml")])
def test_promtool_is_content_with_the_rules(what: tuple[str, ...]) -> None:
    tool = need_program("promtool", "prometheus")
    found = subprocess.run([tool, *what], cwd=DEPLOYMENTS, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout + found.stderr


def test_amtool_is_content_with_the_example() -> None:
    tool = need_program("amtool", "prometheus-alertmanager")
    found = subprocess.run([tool, "check-config", "alertmanager.example.yml"], cwd=DEPLOYMENTS, capture_output=True, timeout=60)
    assert found.returncode == 0, found.stdout


@pytest.mark.xdist_group("faults")
def test_real_alerts_become_runs(rig: Rig, tmp_path: Path) -> None:
    node = f"p{uuid4().hex[:8]}"
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.format(name=node), encoding="utf-8")
    alerts = (DEPLOYMENTS / "alerts.yaml").read_text(encoding="utf-8")
    gateway = Gateway(tmp_path, fleet, None, alerts, toy=False).start("--no-warm-processes")
    exporter = Exporter()
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
    wanted = {
        ("zombie-gpu", node),
        ("container-death", node),
        ("checkpoint-fallback", node),
        ("stale-rendezvous", f"{node}-rdzv"),
        ("stuck-spawning", f"worker/{node}"),
    }
    try:
        alerting.start()
        deadline = time.monotonic() + 60
        while (found := runs_on(node)) < wanted:
            assert time.monotonic() < deadline, (found, gateway.log(), alerting.log())
            time.sleep(0.2)
        exporter.lines, exporter.rising = [], []
        while not gateway.metric('gpu_runbooks_gateway_alerts_total{outcome="resolved"'):
            assert time.monotonic() < deadline, (gateway.log(), alerting.log())
            time.sleep(0.2)
        assert runs_on(node) == wanted
    finally:
        alerting.stop()
        exporter.close()
        gateway.stop()


def runs_on(node: str) -> set[tuple[str, str]]:
    found = store.find_runs([store.RUNBOOK_TAG, "alert"], limit=50)
    rows = [(str(r.labels["runbook"]), str(r.parameters["target"])) for r in found]
    return {row for row in rows if node in row[1]}
