"""The nightly on a real server: its landing page, no overlap, no catching up, nodes shared between processes."""

import json
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelled, Cancelling, Running

from flows import artifacts, store
from flows.config import load_fleet
from flows.launch import create_pending
from flows.specs import SLUGS
from flows.sweep import overlap, shards
from flows.sweep.board import board_key, wrong_now
from flows.sweep.shards import parts_of
from flows.sweep.sweeping import Sweep
from tasks.context import utc_now
from tasks.this_machine import Owner, boot_id, machine_name, start_ticks
from tests.faults.fault import struck
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state
from tests.support.waiting import until


def fleet_of(rig: Rig, tmp_path: Path, count: int, **facts: Any) -> tuple[Path, list[World]]:
    worlds = [rig.world(**facts) for _ in range(count)]
    path = tmp_path / "fleet.yaml"
    name = f"fleet-{worlds[0].name}"
    reports = {"folder": str(tmp_path / "reports")}
    nodes = [{"name": w.name, "local": True} for w in worlds]
    path.write_text(yaml.safe_dump({"name": name, "nodes": nodes, "reports": reports}))
    return path, worlds


def page(fleet: Path) -> str:
    found = store.ask(lambda c: artifacts._latest(c, board_key(load_fleet(str(fleet)).name)))
    return str(found.data)


def start(rig: Rig, slug: str, parameters: dict[str, Any]) -> tuple[int, Path]:
    id_file = rig.home / f"{slug}-{os.urandom(4).hex()}.id"
    return rig.start({"do": "run", "slug": slug, "parameters": parameters, "id_file": str(id_file)}), id_file


def test_landing_page_follows_every_run_and_stays_one_artifact(rig: Rig, tmp_path: Path) -> None:
    fleet, (sick, well) = fleet_of(rig, tmp_path, 2)
    run = sick.run("approve", fleet=str(fleet))
    assert f"[{sick.name}](/v2/runs/flow-run/{run})" in page(fleet).split("## Nodes")[0]
    assert f"| {well.name} | never looked at |" in page(fleet)
    assert store.resume(run, {"decision": "approve", "who": "ana"}) == ""
    sick.work()
    assert "Nothing." in page(fleet).split("## Nodes")[0]
    assert f"| {sick.name} | fixed |" in page(fleet)
    well.run("diagnose", fleet=str(fleet))
    assert f"| {well.name} | something is wrong |" in page(fleet)
    names = {v.target: v.outcome.value for v in wrong_now()}
    assert (names.get(well.name), sick.name in names) == ("sick", False)  # what was fixed is not wrong now
    key = board_key(load_fleet(str(fleet)).name)
    assert len(store.ask(lambda c: c.request("POST", "/artifacts/filter", json=by_key(key)).json())) == 1


def by_key(key: str) -> dict[str, Any]:
    return {"artifacts": {"key": {"any_": [key]}}}


def test_two_nightlies_never_overlap_and_a_missed_one_is_not_caught_up_on(rig: Rig, tmp_path: Path) -> None:
    fleet, _ = fleet_of(rig, tmp_path, 1)
    first = create_pending("nightly", {"fleet": str(fleet)})
    set_state(first.id, Running())
    second = create_pending("nightly", {"fleet": str(fleet)})
    set_state(second.id, Running())
    assert "no overlap" in overlap.why_skip(str(second.id), "nightly")
    assert overlap.why_skip(str(first.id), "nightly") == ""
    other = create_pending("nightly", {"fleet": "/another/fleet.yaml"})
    assert overlap.why_skip(str(other.id), "nightly") == ""
    with subprocess.Popen(["sleep", "60"]) as worker:
        owner = Owner(host=machine_name(), pid=worker.pid, start_ticks=start_ticks(worker.pid) or 0, boot_id=boot_id())
        store.label(first.id, owner.labels())
        assert "no overlap" in overlap.why_skip(str(second.id), "nightly")
        worker.kill()
    assert overlap.why_skip(str(second.id), "nightly") == "", "its process was killed: nobody is at work any more"
    late = first.model_copy(update={"auto_scheduled": True, "expected_start_time": utc_now() - timedelta(hours=9)})
    with pytest.MonkeyPatch.context() as m:
        m.setattr(store, "read_run", lambda _id: late)
        assert "not repeated" in overlap.why_skip(str(first.id), "nightly")
    for run in (first, second, other):
        set_state(run.id, Cancelled())


def test_parts_cover_every_node_once() -> None:
    nodes = load_fleet(None).nodes * 7
    for count in (-1, 0, 1, 2, 3, 7, 50):
        parts = parts_of(nodes, count)
        assert sum(len(p) for p in parts) == 7
        assert all(parts)
        assert len(parts) == max(1, min(count, 7))


def test_nightly_in_shards_needs_no_worker(rig: Rig, tmp_path: Path) -> None:
    fleet, worlds = fleet_of(rig, tmp_path, 5)
    pid, id_file = start(rig, "nightly", {"fleet": str(fleet), "shards": 3, "out": str(tmp_path / "reports")})
    rig.wait(pid)
    run = store.read_run(id_file.read_text())
    assert run.state is not None
    assert run.state.name == "Something is wrong", run.state
    report = json.loads(Path(str(run.labels["report.json"])).read_text())
    zombie = [r["node"] for r in report["results"] if r["runbook"] == "zombie-gpu"]
    assert zombie == [w.name for w in worlds]
    parts = store.find_runs([store.RUNBOOK_TAG, "runbook:nightly-shard"], limit=2)
    assert [s.state and s.state.is_final() for s in parts] == [True, True]
    assert all(f"| {w.name} | " in page(fleet) for w in worlds)


def test_a_worker_reads_a_shard_and_hands_it_over_once(rig: Rig, tmp_path: Path) -> None:
    file, worlds = fleet_of(rig, tmp_path, 3)
    fleet = load_fleet(str(file))
    whole = Sweep(fleet=fleet, slugs=SLUGS, folder=tmp_path / "reports", run_id=str(uuid4()), trigger="nightly")
    run = shards._start(whole, 1, fleet.nodes[1:], {"fleet": str(file), "out": str(tmp_path / "reports"), "at_once": 2})
    rig.wait(rig.start_work(file))
    answers = shards._gathered(run, 2)
    assert answers is not None
    assert [a.results[0].node for a in answers] == [w.name for w in worlds[1:]]
    assert [a.look and a.look.node for a in answers] == [w.name for w in worlds[1:]]
    assert shards._gathered(run, 2) is None  # handed over, and deleted


def test_a_nightly_that_is_cancelled_begins_no_further_node(rig: Rig, tmp_path: Path) -> None:
    fleet, worlds = fleet_of(rig, tmp_path, 3)
    worlds[0].arm("started", "SIGSTOP")
    id_file = rig.home / f"nightly-{os.urandom(4).hex()}.id"
    files = {"fleet": str(fleet), "out": str(tmp_path / "reports"), "at_once": 1}
    job = {"do": "run", "slug": "nightly", "parameters": files, "id_file": str(id_file)}
    pid = rig.start(job | {"env": {"FAULT": str(worlds[0].fault)}})
    until(lambda: struck(worlds[0].fault))
    run = id_file.read_text()
    set_state(run, Cancelling(), force=False)
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    found = store.read_run(run)
    assert found.state_type is StateType.CANCELLED
    report = json.loads(Path(str(found.labels["report.json"])).read_text())
    left = [line for line in report["not_read"] if "not looked at: the run was cancelled" in line]
    assert [line.partition(":")[0] for line in left] == [w.name for w in worlds[1:]]


