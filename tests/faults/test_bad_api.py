"""The Prefect API answers badly all the time while a run diagnoses, asks, acts and proves: no action twice, none lost."""

import time

import pytest

from flows import store
from flows.engine.approval import answer_run
from tests.faults.test_faults import carry_on, check, usable
from tests.support.api_proxy import BAD, ApiProxy
from tests.support.engine_rig import Rig, World
from tests.support.toy import acts_done


def decide(w: World, run: str) -> None:
    """A person approves. Where the question's form was lost on the way, the reaper has it asked again first."""
    for _ in range(3):
        said = answer_run(run, {"decision": "approve", "who": "ana"})
        if not said:
            return
        assert "schema not found" in said
        carry_on(w)
    raise AssertionError(said)


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("mode", ["auto", "approve"])
@pytest.mark.scored(fault="API answers badly", point="all the time", runbook="(toy)", kinds=("toy-fix",))
def test_a_run_through_an_api_that_answers_badly(rig: Rig, fault: str, mode: str) -> None:
    w = rig.world()
    with ApiProxy(rig.state.api, fault) as proxy, rig.through(proxy.url):
        run = w.run(mode)
        if mode == "approve":
            decide(w, run)
            w.work()
        assert proxy.count[fault] > 5, proxy.count
    done = acts_done(rig.worlds, w.name)
    assert len(done) == 1, (done, (rig.home / "children.log").read_text()[-3000:])
    carry_on(w)
    check(w, 1)
    assert store.read_run(run).labels["outcome"] == "fixed"


@pytest.mark.scored(fault="API answers badly", point="two runs race", runbook="(toy)", kinds=("toy-fix",))
def test_two_racing_runs_through_an_api_that_is_asked_twice(rig: Rig) -> None:
    w = rig.world()
    with ApiProxy(rig.state.api, "twice") as proxy, rig.through(proxy.url):
        pids = []
        for _ in range(2):
            pids.append(w.start_run("auto")[0])
            time.sleep(0.02)
        for pid in pids:
            rig.wait(pid)
        assert proxy.count["twice"] > 5
    assert len(acts_done(rig.worlds, w.name)) == 1
    carry_on(w)
    usable(w)
    assert sorted(r["outcome"] for r in w.reports()) == ["fixed", "refused"]
