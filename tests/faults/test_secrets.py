"""A run whose evidence and action are full of secrets is killed: the audit looks for them in all that the server kept."""

import pytest

from tests.faults.test_faults import carry_on, check
from tests.scorecard.secrets import planted_log
from tests.support.engine_rig import Rig


@pytest.mark.parametrize("point", ["gathered-again", "step-done"])
def test_what_a_killed_run_leaves_is_searched(rig: Rig, point: str) -> None:
    log = rig.home / f"secrets-{point}.log"
    log.write_text(planted_log(), encoding="utf-8")
    w = rig.world(log=str(log), says=log.read_text(encoding="utf-8"))
    w.arm(point)
    w.run("auto")
    carry_on(w)
    check(w, 1)
    assert "<secret:" in str(w.reports()[-1]["evidence"]["log"])
