"""Incidents of claims without a lease, by rows built by hand, and of a training configuration, read from its file by the probe."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Diagnosis, State
from runbooks.launch.diagnose import diagnose
from tasks.context import Context
from tasks.launch.read import gather_distributed_setup
from tasks.transport.local import LocalHost
from tests.incidents.test_places_launch import LIMITS, free_port
from tests.runbooks.spawning import build

DAY = 86_400
ALIVE = {"row": {"status": "active", "heartbeat": 5, "changed": 5}}


def claimed(age_s: float, *others: dict[str, Any]) -> Diagnosis:
    """Seen from a worker that is well: a task in progress at w9."""
    return build.judge(ALIVE | {"tasks": [{"id": "t1", "status": "In Progress", "worker": "w9", "claimed": age_s}], "others": list(others)})


def slugs(d: Diagnosis) -> list[str]:
    return [c.slug for c in d.causes]


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(22, marks=pytest.mark.incident("QU01", came="right", fed="evidence", known=True)),
        pytest.param(38, marks=pytest.mark.incident("T2-24", came="right", fed="evidence", known=True)),
    ],
)
def test_a_claim_of_a_worker_that_is_gone(days: int) -> None:
    d = claimed(days * DAY)
    assert slugs(d) == ["task-held-by-dead-worker"]
    assert any("give back all tasks" in x for x in d.must_not)
    assert not d.plans, "a person gives back these tasks, once each"


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(22, marks=pytest.mark.incident("QU01", came="right", fed="evidence", known=True, twin="its worker lives")),
        pytest.param(38, marks=pytest.mark.incident("T2-24", came="right", fed="evidence", known=True, twin="its worker lives")),
    ],
)
def test_a_claim_of_a_worker_that_lives(days: int) -> None:
    d = claimed(days * DAY, {"id": "w9", "status": "active", "created": (days + 1) * DAY, "heartbeat": 5, "changed": 5, "pod_id": "p9"})
    assert "task-held-by-dead-worker" not in slugs(d)


@pytest.mark.incident("QU03", came="right", fed="evidence", known=True)
def test_a_process_without_a_heartbeat_is_not_well() -> None:
    d = build.judge({"row": {"status": "processing", "heartbeat": 3000}})
    assert (d.state, slugs(d)) == (State.UNHEALTHY, ["heartbeat-old"])


@pytest.mark.incident("QU03", came="right", fed="evidence", known=True, twin="its heartbeat is fresh")
def test_a_process_with_a_heartbeat_is_well() -> None:
    d = build.judge({"row": {"status": "processing", "heartbeat": 5, "changed": 5}})
    assert (d.state, slugs(d)) == (State.HEALTHY, [])


def configured(folder: Path, text: str, **more: Any) -> Diagnosis:
    """A launch of this machine with that configuration file, as the probe reads it."""
    path, port = folder / "train.yaml", free_port()
    path.write_text(text)
    command = ("torchrun", "--nproc_per_node", "8", "--master_port", str(port), "train.py")
    launch = Launch(name="train", nodes=("n1",), command=command, port=port, shm_gb=0, config=str(path), **more)
    fleet = Fleet(nodes=(Node(name="n1", local=True),), launches=(launch,))
    seen = gather_distributed_setup(Context(fleet=fleet, target="train", open_host=lambda n: LocalHost(n.name)))
    return diagnose(type(seen).model_validate_json(seen.model_dump_json()), LIMITS)


def traps(d: Diagnosis) -> list[str]:
    return [c.slug for c in d.causes if c.slug.startswith("yaml-")]


@pytest.mark.incident("YM01", came="right", fed="readers", known=True)
def test_an_exponent_that_is_text(tmp_path: Path) -> None:
    d = configured(tmp_path, "learning_rate: 1e-5\nweight_decay: 0.1\n")
    assert traps(d) == ["yaml-exponent-text"]
    assert any("train.yaml:1:16" in x and "learning_rate: 1.0e-5" in x for x in d.do_now)


@pytest.mark.incident("YM01", came="right", fed="readers", known=True, twin="the number has its point; the loader reads it as a number")
def test_an_exponent_that_is_a_number(tmp_path: Path) -> None:
    assert traps(configured(tmp_path, "learning_rate: 1.0e-5\nweight_decay: 0.1\n")) == []
    assert traps(configured(tmp_path, "learning_rate: 1e-5\n", loader="omegaconf")) == []


@pytest.mark.incident("YM03", came="right", fed="readers", known=True)
def test_a_tab_before_a_comment(tmp_path: Path) -> None:
    d = configured(tmp_path, "a: 1\nkey: value\t# comment\n")
    assert traps(d) == ["yaml-tab"]
    assert any("train.yaml:2:11" in x for x in d.do_now)
    assert any("keeping a copy" in x for x in d.must_not)


@pytest.mark.incident("YM03", came="right", fed="readers", known=True, twin="a space before the comment; a tab inside quotes")
def test_no_tab_that_matters(tmp_path: Path) -> None:
    assert traps(configured(tmp_path, "a: 1\nkey: value # comment\n")) == []
    assert traps(configured(tmp_path, 'a: 1\nkey: "two\twords"\n')) == []
