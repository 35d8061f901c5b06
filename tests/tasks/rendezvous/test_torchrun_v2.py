"""Real etcd and real torchrun (backend etcd-v2): living runs stay, dead ones are cleared, the same id starts again."""

import signal
from pathlib import Path

import pytest

from tests.support.etcd import VERSIONS, Etcd
from tests.support.rendezvous import act, context_of, look, place, slugs
from tests.support.torchrun import Agents, pair
from tests.support.waiting import until

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.timeout(1200)]  # one real torchrun test at a time

BEAT = ",keep_alive_interval=1"


def started(agents: Agents, etcd: Etcd, run: str, steps: int, tag: str) -> list[int]:
    """Two agents of one run, training. Returns their place in `agents.started`."""
    pair(agents, f"127.0.0.1:{etcd.port}", run, steps, tag, BEAT)
    return [len(agents.started) - 2, len(agents.started) - 1]


@pytest.mark.soak  # tests/flows/test_rendezvous.py does the same through the engine
@pytest.mark.parametrize("etcd", VERSIONS, indirect=True)
def test_finished_run_is_cleared_and_a_living_one_is_not_touched(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    started(agents, etcd, "live", 10_000, "live")
    a, b = started(agents, etcd, "job1", 1, "first")
    assert agents.started[a].wait(60) == 0
    assert agents.started[b].wait(60) == 0
    context = context_of(place(etcd.url), tmp_path / "reports", "t/job1")
    _, diagnosis = look(context)
    assert slugs(diagnosis) == ["closed-round"]
    (plan,) = diagnosis.plans
    before = {k for k in etcd.leaves() if not k.endswith("/live")}
    said = act(plan, context)
    gone = {k for k in before if k not in etcd.leaves()}
    assert len(gone) == len(plan.steps[0].args["keys"])
    assert any("saved" in s for s in said[0].said)
    _, after = look(context)
    assert slugs(after) == []
    evidence, everything = look(context_of(place(etcd.url), tmp_path, "t"))
    assert [c.slug for c in everything.causes] == ["live-run"], (everything.causes, evidence.nodes)
    assert all(p.poll() is None for p in agents.started[:2])
    started(agents, etcd, "job1", 1, "second")  # the same id starts again


def test_agent_gone_and_worker_alive_is_never_deleted(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    a, b = started(agents, etcd, "job1", 10_000, "x")
    agents.kill(agents.started[a], workers=False)
    agents.kill(agents.started[b], workers=False)
    _, diagnosis = look(context_of(place(etcd.url), tmp_path, "t/job1"))
    assert "orphan-worker" in slugs(diagnosis)
    assert diagnosis.plans == ()


@pytest.mark.soak
def test_all_killed_recovers_by_itself_and_nothing_is_planned(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    for number in started(agents, etcd, "job1", 10_000, "x"):
        agents.kill(agents.started[number])
    _, diagnosis = look(context_of(place(etcd.url), tmp_path, "t/job1"))
    assert slugs(diagnosis) == ["all-dead"]
    assert diagnosis.plans == ()
    started(agents, etcd, "job1", 1, "again")


def test_killed_while_waiting_alone_is_cleared(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    alone = agents.start("etcd-v2", f"127.0.0.1:{etcd.port}", "job1", conf=BEAT, name="alone")
    until(lambda: "/torch/elastic/rendezvous/job1" in etcd.leaves(), 60, "joining")
    context = context_of(place(etcd.url), tmp_path, "t/job1")
    _, waiting = look(context)
    assert slugs(waiting) == ["min-above-existing", "waiting-for-nodes"]
    assert waiting.plans == ()
    agents.kill(alone, how=signal.SIGKILL)
    _, diagnosis = look(context)
    assert slugs(diagnosis) == ["dead-waiting"]
    act(diagnosis.plans[0], context)
    assert not [k for k in etcd.leaves() if k.startswith("/torch/elastic")]
    started(agents, etcd, "job1", 1, "again")
