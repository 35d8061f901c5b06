"""The reaper is killed in the middle of its work, again and again; the next one ends what is left, and repeats nothing."""

import os

import pytest

from flows.reaper import sweep
from tests.faults.test_faults import carry_on, check
from tests.scorecard import notes
from tests.support.engine_rig import Rig
from tests.support.toy import acts_done


@pytest.mark.parametrize("point", ["gathered", "step-begins", "step-done"])
def test_a_reaper_that_is_killed_at_any_question(rig: Rig, point: str) -> None:
    """The run was killed at `point`; nine reapers die over it before one comes through."""
    w = rig.world()
    w.arm(point)
    w.run("auto")
    done = len(acts_done(rig.worlds, w.name))
    notes.fault("SIGKILL of the reaper", f"at its n-th question to the server, over a run killed at {point}")
    killed = 0
    for die_at in (2, 4, 6, 8, 10, 12, 15, 18, 22):
        killed += os.WIFSIGNALED(rig.wait(rig.start({"do": "sweep", "die_at": die_at})))
    assert killed >= 3, "fewer than that would prove little"
    sweep()
    carry_on(w)
    assert len(acts_done(rig.worlds, w.name)) == done
    check(w, 1)
