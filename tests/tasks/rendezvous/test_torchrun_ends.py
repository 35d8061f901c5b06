"""Real torchrun that is asked to end, that collides with another job on one id, and that comes too late."""

import signal
from pathlib import Path

import pytest

from runbooks.core.reading import Known
from tests.support.etcd import Etcd
from tests.support.rendezvous import context_of, look, place, slugs
from tests.support.torchrun import Agents, pair
from tests.support.waiting import until

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.timeout(1200), pytest.mark.soak]

BEAT = ",keep_alive_interval=1"


def test_agents_that_were_asked_to_end_leave_an_id_that_starts_again(
    etcd: Etcd, agents: Agents, tmp_path: Path
) -> None:
    """SIGTERM ends the workers as well and does not close the round: waiting is the right act, nothing is planned."""
    end = f"127.0.0.1:{etcd.port}"
    pair(agents, end, "job1", 10_000, "x", BEAT)
    for agent in agents.started:
        agents.kill(agent, workers=False, how=signal.SIGTERM)
    until(lambda: agents.running() == [], 30, "the end of all workers")
    _, d = look(context_of(place(etcd.url), tmp_path, "t/job1"))
    assert slugs(d) == ["all-dead"], d
    assert d.plans == ()
    pair(agents, end, "job1", 1, "again", BEAT)


def test_two_jobs_on_the_default_id_are_named_and_both_live(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    """They meet in one round; nothing is deleted under them."""
    (tmp_path / "other").mkdir()
    other, end = Agents(tmp_path / "other"), f"127.0.0.1:{etcd.port}"
    other.script = other.script.rename(tmp_path / "other" / "another_job.py")
    try:
        for job in (agents, other):
            job.start("etcd-v2", end, "none", steps=10_000, conf=BEAT, name="x")
        until(lambda: "step 0" in agents.log("x") and "step 0" in other.log("x"), 120, "a world of both")
        _, d = look(context_of(place(etcd.url), tmp_path, "t/none"))
        assert slugs(d)[0] == "run-id-collision", d
        assert d.plans == ()
        assert [a.poll() for a in (*agents.started, *other.started)] == [None, None]
    finally:
        other.stop()


def test_a_late_node_costs_nobody_its_life_and_what_it_stops_is_named(
    etcd: Etcd, agents: Agents, tmp_path: Path
) -> None:
    """Two of up to three train when the third comes: torch 2.13 ends the workers, meets again and starts none. Nobody is
    taken for dead, nothing is planned, and a start of all together works."""
    end = f"127.0.0.1:{etcd.port}"
    for name in ("a", "b"):
        agents.start("etcd-v2", end, "job1", nodes="2:3", steps=10_000, conf=BEAT, name=name)
    until(lambda: "step 0" in agents.log("a") and "step 0" in agents.log("b"), 120, "training of two")
    agents.start("etcd-v2", end, "job1", nodes="2:3", steps=10_000, conf=BEAT, name="late")
    seen: set[str] = set()
    for _ in range(8):
        evidence, d = look(context_of(place(etcd.url), tmp_path, "t/job1"))
        assert isinstance(evidence.runs, Known)
        assert d.plans == (), d
        seen.update(c.slug for c in d.causes)
        if "late-nodes" in seen or "world 3" in agents.log("late"):
            break
    assert seen <= {"late-nodes", "live-run", "still-joining", "restart-counts-differ"}, seen
    assert "late-nodes" in seen or "world 3" in agents.log("late"), seen
    assert [a.poll() for a in agents.started] == [None] * 3
    for agent in agents.started:
        agents.kill(agent)
    for name in ("x", "y", "z"):
        agents.start("etcd-v2", end, "job1", nodes="3", steps=1, conf=BEAT, name=name)
    until(lambda: all("world 3" in agents.log(n) for n in ("x", "y", "z")), 120, "a world of three")
