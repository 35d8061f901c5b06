"""What the engine says of itself, with each trouble made to happen on a real server."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prometheus_client import CollectorRegistry, generate_latest

from deployments.gateway.self_metrics import SelfHealth
from deployments.pool import POOL
from flows import store
from flows.clock import server_now
from flows.pool import live_workers, pause_pool
from flows.reaper_lead import PREFIX, beat, leave, own_name, reapers
from flows.self_health import Health, read_health
from tests.faults.fault import struck
from tests.support.engine_rig import REPO, Rig


@pytest.fixture
def no_reapers(rig: Rig) -> Iterator[None]:
    """Before and after: none."""
    for name in store.variables(PREFIX):
        store.delete_variable(PREFIX + name)
    yield
    for name in store.variables(PREFIX):
        store.delete_variable(PREFIX + name)


def metrics() -> str:
    registry = CollectorRegistry()
    registry.register(SelfHealth(lambda: read_health(POOL)))
    return generate_latest(registry).decode()


def test_a_question_and_a_lock_are_shown_with_their_holder_and_age(rig: Rig) -> None:
    asks, acts = rig.world(), rig.world()
    run = asks.run("approve")
    acts.arm("step-begins", "SIGSTOP")
    pid, _ = acts.start_run("auto")
    deadline = time.monotonic() + 30
    while not struck(acts.fault) and time.monotonic() < deadline:
        time.sleep(0.02)
    health = read_health(POOL)
    [question] = [w for w in health.waiting if w.run == run]
    assert question.expires
    [lock] = [k for k in health.locks if k.owner == acts.name]
    assert lock.holder.endswith(f"pid {pid}")
    assert 0 <= lock.age_s < 60
    page = metrics()
    assert "gpu_runbooks_server_up 1.0" in page
    assert value(page, "gpu_runbooks_locks_held") >= 1
    assert value(page, f'gpu_runbooks_lock_seconds{{holder="{lock.holder}",owner="{acts.name}"}}') >= lock.age_s
    assert value(page, 'gpu_runbooks_open_runs{state="paused"}') >= 1
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    assert not [k for k in read_health(POOL).locks if k.owner == acts.name]
    assert f'owner="{acts.name}"' not in metrics()


def value(page: str, name: str) -> float:
    return float(next(line.rsplit(" ", 1)[1] for line in page.splitlines() if line.startswith(name + " ")))


def test_a_paused_pool_is_shown(rig: Rig) -> None:
    pause_pool(POOL, True)
    try:
        assert value(metrics(), "gpu_runbooks_pool_paused") == 1
    finally:
        pause_pool(POOL, False)
    assert value(metrics(), "gpu_runbooks_pool_paused") == 0


def test_a_worker_is_counted_while_it_reports(rig: Rig) -> None:
    name = f"no-worker-yet-{os.urandom(3).hex()}"
    assert live_workers(name, server_now()) is None
    store.ask(lambda c: c.create_work_pool(WorkPoolCreate(name=name, type="process")))
    assert live_workers(name, server_now()) == 0
    store.ask(lambda c: _beat(c, name))
    assert live_workers(name, server_now()) == 1
    assert live_workers(name, server_now() + timedelta(seconds=7)) == 0
    store.ask(lambda c: c.delete_work_pool(name))


def _beat(client: SyncPrefectClient, pool: str) -> None:
    says = {"name": "w", "heartbeat_interval_seconds": 2}
    client.request("POST", "/work_pools/{work_pool_name}/workers/heartbeat", path_params={"work_pool_name": pool}, json=says)


def test_of_two_reapers_the_one_that_was_there_leads_until_it_is_silent(no_reapers: None) -> None:
    now = server_now()
    facts = {"who": "other pid 7", "since": (now - timedelta(hours=1)).isoformat(), "at": now.isoformat(), "done": 0}
    store.set_variable(PREFIX + "other_7_7", facts)
    first = beat(now)
    assert first is not None
    assert first.who == "other pid 7"
    health = read_health(POOL)
    assert (health.reapers, health.reaper and health.reaper.who) == (2, "other pid 7")
    store.set_variable(PREFIX + "other_7_7", facts | {"at": (now - timedelta(seconds=90)).isoformat()})
    first = beat(now)
    assert first is not None
    assert first.name == own_name()
    leave()
    assert [r.who for r in reapers()] == ["other pid 7"]


def test_without_a_reaper_it_says_since_when(no_reapers: None) -> None:
    assert read_health(POOL).reaper_age_s is None
    assert "reaper_last_round" not in metrics()
    beat(server_now())
    leave()
    long_ago = (server_now() - timedelta(minutes=5)).isoformat()
    store.set_variable(PREFIX + "gone_1_1", {"who": "g", "since": long_ago, "at": long_ago})
    health = read_health(POOL)
    assert health.reaper is None
    assert 290 < (health.reaper_age_s or 0) < 320


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    hanging, asked = threading.Event(), []

    def hangs() -> Health:
        asked.append(1)
        hanging.wait(20)
        raise AssertionError

    registry = CollectorRegistry()
    registry.register(SelfHealth(hangs))
    began = time.monotonic()
    page = generate_latest(registry).decode()
    assert time.monotonic() - began < 6
    generate_latest(registry)
    assert len(asked) == 1, "not asked again beside itself"
    hanging.set()
    assert "gpu_runbooks_server_up 0.0" in page
    assert "locks_held" not in page, "what is not known is not 0"


def test_every_alert_about_ourselves_has_its_page() -> None:
    rules = yaml.safe_load((REPO / "deployments/prometheus-rules.yaml").read_text())
    [own] = [g for g in rules["groups"] if g["name"] == "gpu-runbooks-itself"]
    links = [r["annotations"]["runbook_url"].removeprefix("http://{{ $labels.instance }}/alert-pages/") for r in own["rules"]]
    assert links == [r["alert"] for r in own["rules"]], "pages of the gateway that was scraped"
    pages = [Path(f"deployments/alert_pages/{name}.md") for name in links]
    assert [p.stem for p in pages] == [r["alert"] for r in own["rules"]]
    for page in pages:
        text = (REPO / page).read_text()
        assert text.startswith(f"# {page.stem}: ")
        assert "## What to do" in text
    assert {p.name for p in (REPO / "deployments/alert_pages").iterdir()} == {p.name for p in pages}
