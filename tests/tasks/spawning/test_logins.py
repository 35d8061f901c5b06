"""One log-in per key, host and run, counted in a real sshd's own log."""

import pytest

from runbooks.core.reading import Known
from tasks.spawning.act_pods import start_worker_unverified
from tasks.spawning.read import gather_stuck_spawning
from tests.tasks.spawning.conftest import WORKER, World
from tests.tasks.spawning.test_world import step_of


def logins(text: str) -> tuple[int, int]:
    """(accepted, refused)."""
    return text.count("Accepted publickey"), text.count("Failed publickey")


def test_a_look_at_a_pod_and_an_act_in_it_cost_one_log_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk's log-in serves the reading inside, the second look before the act, and the act."""
    monkeypatch.setattr("tasks.spawning.act_pods.WATCH_S", 0.3)
    world.row()
    world.pod()
    world.log.parent.mkdir()
    before = len(world.sshd.read_log())
    context = world.context()
    evidence, d = world.look(context)
    assert isinstance(evidence.inside, Known), evidence.inside
    assert logins(world.sshd.read_log()[before:]) == (1, 0)
    again = gather_stuck_spawning(context)
    assert isinstance(again.inside, Known)
    start_worker_unverified(step_of(d, "start-worker-unverified"), context)
    assert logins(world.sshd.read_log()[before:]) == (1, 0), "one run, one log-in"
    proof = gather_stuck_spawning(context)
    assert isinstance(proof.inside, Known)
    assert [p.pid for p in proof.inside.value.processes]
    assert logins(world.sshd.read_log()[before:]) == (2, 0), "after a change it is proven by a fresh one"
    context.open_host.close_all()  # type: ignore[attr-defined]
    world.db.do("DELETE FROM workers WHERE id = $1", WORKER)


def test_a_refused_key_is_offered_once(world: World) -> None:
    """Two looks of one run at a pod that refuses the key: one refusal in its log."""
    world.row()
    world.pod()
    world.sshd.authorize()
    before = len(world.sshd.read_log())
    try:
        context = world.context()
        _, d = world.look(context)
        gather_stuck_spawning(context)
    finally:
        world.sshd.authorize(world.sshd.key)
    assert "ssh-key-wrong" in [c.slug for c in d.causes]
    assert logins(world.sshd.read_log()[before:]) == (0, 1)
