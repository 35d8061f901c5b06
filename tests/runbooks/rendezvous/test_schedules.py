"""A thousand random schedules: no living run is ever planned for deletion; the dead are; the id starts again."""

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.rendezvous.diagnose import Limits, diagnose
from tests.runbooks.rendezvous.model import World

LIMITS = Limits(**load_runbook("stale-rendezvous").limit_values())


def one_schedule(seed: int) -> tuple[int, int, int]:
    """Events, then the runbook on every run, thrice. Returns deletions, runs left alone, new starts that worked."""
    world = World(seed)
    cleared = left = restarted = 0
    for _ in range(3):
        for _ in range(world.dice.randint(2, 7)):
            world.event()
        for name in ("a", "b", "a.1", "none"):
            d = diagnose(world.evidence(name), LIMITS)
            steps = [s for p in d.plans for s in p.steps]
            assert all(s.args["run"] == name for s in steps)
            if world.lives(name):
                assert not steps, f"seed {seed}: living run {name}: {d.model_dump_json(indent=1)}"
                left += 1
            for step in steps:
                others = {n: (r.index, r.closed) for n, r in world.runs.items() if n != name}
                assert world.clear([], step.args["guard"][1] if step.args["guard"] else None, name)
                assert others == {n: (r.index, r.closed) for n, r in world.runs.items()}
                cleared += 1
                restarted += _starts_again(world, name)
    return cleared, left, restarted


def _starts_again(world: World, name: str) -> int:
    """Two newcomers with the cleared id form round 0."""
    before = len(world.agents)
    for _ in range(2):
        world.start(name)
        world.agents[-1].low = world.agents[-1].high = 2
        world.agents[-1].skew = 0  # clocks that differ are a cause of their own
    world.step(3)
    run = world.runs[name]
    assert run.complete
    assert set(run.seats) == {a.member for a in world.agents[before:]}
    for a in world.agents[before:]:
        a.agent_lives = a.worker_lives = False
    return 1


@pytest.mark.parametrize("block", range(10))
def test_schedules(block: int) -> None:
    """A hundred per block."""
    totals = [one_schedule(seed) for seed in range(block * 100, block * 100 + 100)]
    cleared, left, restarted = (sum(t[i] for t in totals) for i in range(3))
    assert cleared > 20
    assert left > 100
    assert restarted == cleared
