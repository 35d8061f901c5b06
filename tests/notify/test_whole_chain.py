"""Everything real, once through: Prometheus → Alertmanager → gateway → Prefect → sshd → a person's phone → worker → fixed → told."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from deployments import server
from deployments.lab import zombie_gpu
from deployments.processes import stop
from deployments.state import read_state
from flows import store
from flows.notify.delivery import deliver
from tests.notify.conftest import Channels
from tests.support.engine_rig import REPO, Rig
from tests.support.gateway import TOKEN, Gateway
from tests.support.prometheus import Alerting, Exporter
from tests.support.receivers import Webhook
from tests.support.soak import record

LIMIT_S = 240.0


@pytest.fixture
def real_worker(rig: Rig) -> Iterator[None]:
    """As `up` starts it: no toy in it."""
    state = read_state()
    assert state is not None
    worker = server.start_process(state, "worker", server.worker_argv())
    yield
    stop(worker, limit_s=15)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    yield made
    made.close()


def until(what: Callable[[], object], gateway: Gateway) -> object:
    deadline = time.monotonic() + LIMIT_S
    while not (found := what()):
        assert time.monotonic() < deadline, gateway.log()
        time.sleep(0.2)
    return found


@pytest.mark.soak
def test_from_a_metric_to_fixed_by_a_link(
    rig: Rig, channels: Channels, hook: Webhook, real_worker: None, exporter: Exporter, tmp_path: Path
) -> None:
    with zombie_gpu.scene(tmp_path) as scene:
        alerts = (REPO / "deployments/alerts.yaml").read_text(encoding="utf-8")
        alerts = alerts.replace("    runbook: zombie-gpu\n", "    runbook: zombie-gpu\n    mode: approve\n", 1)
        gateway = Gateway(tmp_path, scene.fleet, scene.policy, alerts, toy=False).start()
        channels.write()
        channels.file.write_text(channels.file.read_text().replace("http://gw.test", gateway.url), encoding="utf-8")
        node = scene.target
        exporter.lines = [
            f'DCGM_FI_DEV_GPU_UTIL{{Hostname="{node}",gpu="0"}} 0',
            f'DCGM_FI_DEV_FB_USED{{Hostname="{node}",gpu="0"}} 8710',
        ]
        alerting = Alerting(tmp_path, exporter, gateway.url, TOKEN)
        began = time.monotonic()
        try:
            alerting.start()
            link = until(lambda: link_in(hook), gateway)
            asked = time.monotonic() - began
            run = decided(str(link))
            until(lambda: [m for m in hook.got if "fixed and verified" in m["title"]], gateway)
        finally:
            alerting.stop()
            gateway.stop()
        seconds = time.monotonic() - began
        assert "is gone" in scene.proof()
    ended = store.read_run(run)
    assert (ended.state_name, ended.labels["outcome"]) == ("Fixed", "fixed")
    report = Path(str(ended.labels["report"])).read_text(encoding="utf-8")
    assert "alert GpuZombie from alertmanager" in report
    assert "signed link" in report
    assert deliver(run) == ()  # nothing is owed any more
    assert len([r for r in store.find_runs([store.RUNBOOK_TAG, "alert"]) if r.parameters["target"] == node]) == 1
    record("whole_chain", {"metric_to_question_s": round(asked, 1), "metric_to_told_fixed_s": round(seconds, 1), "runs": 1})


def link_in(hook: Webhook) -> str:
    """The signed link in what came to the webhook, "" before it has come."""
    texts = (str(m["message"]) for m in hook.got)
    return next((f[0] for f in (re.search(r"http://127\.0\.0\.1:\d+/approve/\S+", t) for t in texts) if f), "")


def decided(link: str) -> str:
    """Approves on the link's page, as a phone does; the id of the run."""
    page = httpx.get(link).text
    form = re.search(r'name="form" value="([^"]+)"', page)
    assert form, page
    done = httpx.post(link, data={"form": form[1], "decision": "approve", "choice": "clean up only"}, headers={"origin": link})
    assert done.status_code == 200, done.text
    from runbooks.notify.link import read
    from tasks.notify.keys import link_key

    return read(link.rsplit("/", 1)[1], link_key()).run
