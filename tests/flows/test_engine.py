"""The engine on a real Prefect server and a toy world: every outcome, every guard."""

import re
import socket
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Completed

from deployments.cli.main import main
from flows import records, store
from flows.engine.approval import answer_run
from flows.engine.guards import breaker_name, reset_breaker
from flows.engine.open_question import open_question
from flows.reaper import sweep
from tests.faults.real import outcome
from tests.support.engine_rig import Rig, World
from tests.support.freezing import frozen
from tests.support.toy import acts_done, write_world


def codes(world: World, run: str) -> list[str]:
    """What the newest report says of why it was refused; the run's label says the same."""
    found = [r["code"] for r in world.reports()[-1]["refusals"]]
    assert ",".join(sorted(set(found))) == store.read_run(run).labels.get("refused", "")
    return found


def test_diagnose_changes_nothing(rig: Rig) -> None:
    w = rig.world()
    run = w.run("diagnose")
    assert outcome(run) == "sick"
    assert acts_done(rig.worlds, w.name) == []
    (report,) = w.reports()
    assert report["outcome"] == "sick"
    assert report["acts"] == []
    state = store.read_run(run).state
    assert state is not None
    assert state.name == "Something is wrong"
    assert state.is_failed()  # red in the UI
    assert store.read_run(run).run_count == 1  # and never retried for that
    assert [s.name for s in store.states_of(run)][-2:] == ["Running", "Something is wrong"]


def test_where_a_worker_has_a_fleet_file_no_other_address_is_connected_to(rig: Rig) -> None:
    """The form takes any text as a target: without a fleet of its own the run goes by the worker's."""
    w = rig.world()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        target = f"root@127.0.0.1:{listener.getsockname()[1]}"
        job = {"do": "run", "slug": "zombie-gpu", "parameters": {"target": target, "mode": "diagnose", "out": str(w.out)}}
        id_file = rig.home / f"{w.name}.id"
        rig.wait(rig.start(job | {"id_file": str(id_file), "env": {"FAULT": "", "GPU_RUNBOOKS_FLEET": str(w.fleet)}}))
        with pytest.raises(TimeoutError):
            listener.accept()
    run = store.read_run(id_file.read_text())
    assert run.state is not None
    assert run.state.name == "Bad configuration"
    assert w.name in str(run.state.message), "the names that it may be are given"


def test_auto_acts_once_verifies_and_reports(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """The report, and `show`, say how to undo it, with the facts of the step that was done."""
    w = rig.world()
    run = w.run("auto")
    assert outcome(run) == "fixed"
    assert len(acts_done(rig.worlds, w.name)) == 1
    (report,) = w.reports()
    assert report["acts"][0]["outcome"] == "done"
    assert report["after"]["state"] == "healthy"
    assert report["permission"]["by"] == "policy"
    (page,) = w.out.rglob("2*.md")
    undo = f"make {report['chosen']['steps'][0]['args']['identity']} sick again"
    assert report["acts"][0]["undo"] == [{"kind": "toy-fix", "words": undo, "commands": []}]
    assert undo in page.read_text()
    assert main(["show", run]) == 0
    assert f"- toy-fix on {w.name}: {undo}" in capsys.readouterr().out


def test_a_fix_that_does_not_help_is_not_fixed_and_is_not_retried_by_itself(rig: Rig) -> None:
    w = rig.world(unfixable=True)
    assert outcome(w.run("auto")) == "not-fixed"
    assert outcome(w.run("auto")) == "waiting"
    assert len(acts_done(rig.worlds, w.name)) == 1


def approve(run: str, **answer: Any) -> str:
    return answer_run(run, {"decision": "approve", "who": "ana"} | answer)


def test_approval_runs_the_chosen_plan_in_another_process(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    assert outcome(run) == "waiting"
    assert w.reports()[0]["outcome"] == "waiting"
    assert approve(run, choice="clean up and restart") == ""
    assert approve(run) != ""  # approving twice
    w.work()
    assert outcome(run) == "fixed"
    assert [line.split()[0] for line in acts_done(rig.worlds, w.name)] == ["fix", "restart"]
    (report,) = w.reports()
    assert report["permission"]["who"] == "ana"


def test_rejected_changes_nothing(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    assert answer_run(run, {"decision": "reject", "who": "bo", "why": "leave it"}) == ""
    w.work()
    assert outcome(run) == "rejected"
    assert codes(w, run) == ["rejected"]
    assert acts_done(rig.worlds, w.name) == []


def test_plan_that_changed_during_approval_asks_again(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    write_world(rig.worlds, w.name, sick=True, identity="another pid")
    assert approve(run) == ""
    w.work()
    assert outcome(run) == "waiting"
    assert codes(w, run) == ["target-changed"], "whoever approved is told why it did not count"
    question = open_question(run)
    assert question is not None
    assert re.search("approved “.+”, but what is there now is not what was there", question.text)
    assert acts_done(rig.worlds, w.name) == []
    assert approve(run) == ""
    w.work()
    assert outcome(run) == "fixed"
    assert acts_done(rig.worlds, w.name)[0].startswith("fix another pid")


def test_world_that_healed_during_approval_is_left_alone(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    write_world(rig.worlds, w.name, sick=False, identity="x")
    assert approve(run) == ""
    w.work()
    assert outcome(run) == "healthy"
    assert acts_done(rig.worlds, w.name) == []


def test_expired_approval_is_closed_with_a_report(rig: Rig) -> None:
    w = rig.world()
    rig_policy = rig.policy.read_text()
    short = rig.home / "short.yaml"
    short.write_text(rig_policy.replace("approval_ttl_s: 3600", "approval_ttl_s: 0.5"), encoding="utf-8")
    run = w.run("approve", policy=str(short))
    import time

    time.sleep(0.6)
    lines = sweep()
    assert any("no decision" in line for line in lines)
    w.work()
    assert outcome(run) == "expired"
    assert codes(w, run) == ["expired"]
    assert acts_done(rig.worlds, w.name) == []


def test_approval_after_expiry_does_not_act(rig: Rig) -> None:
    w = rig.world()
    short = rig.home / "short2.yaml"
    short.write_text(rig.policy.read_text().replace("approval_ttl_s: 3600", "approval_ttl_s: 0.5"), encoding="utf-8")
    run = w.run("approve", policy=str(short))
    import time

    time.sleep(0.6)
    assert approve(run) == ""
    w.work()
    assert outcome(run) == "expired"
    assert acts_done(rig.worlds, w.name) == []


def test_freeze_refuses_and_holds_waiting_approvals(rig: Rig) -> None:
    w, v = rig.world(), rig.world()
    waiting = v.run("approve")
    with frozen("change window"):
        run = w.run("auto")
        assert outcome(run) == "refused"
        assert codes(w, run) == ["frozen"]
        sweep()
        assert "frozen" in approve(waiting)  # the question is held: it neither counts now nor is lost
        sweep()
    assert outcome(waiting) == "waiting"
    assert acts_done(rig.worlds, w.name) + acts_done(rig.worlds, v.name) == []
    assert approve(waiting) == ""
    v.work()
    assert outcome(waiting) == "fixed"


def test_a_resume_in_the_ui_during_a_freeze_is_held_and_asked_again(rig: Rig) -> None:
    """Prefect takes it; it is no approval then and none later, and what the person says next counts."""
    w, v = rig.world(), rig.world()
    runs = {w: w.run("approve"), v: v.run("approve")}
    with frozen("change window"):
        for _ in range(6):  # more often than wrong answers are taken
            for world, run in runs.items():
                assert store.resume(run, {"decision": "approve", "who": "ana"}) == ""
                world.work()
                assert outcome(run) == "waiting"
        held = store.read_run(runs[w]).state
        assert held is not None
        assert held.is_paused()
        form = store.read_input(runs[w], str((held.state_details.run_input_keyset or {})["description"]))
        assert "change window" in str(form)
        assert store.resume(runs[v], {"decision": "reject", "who": "ana"}) == ""
        v.work()
        assert outcome(runs[v]) == "rejected"
    assert acts_done(rig.worlds, w.name) == []
    assert approve(runs[w]) == ""
    w.work()
    assert outcome(runs[w]) == "fixed"
    assert len(acts_done(rig.worlds, w.name)) == 1


def test_a_freeze_still_refuses_a_run_that_has_asked_nobody(rig: Rig) -> None:
    """Only what refuses is said: that the run would have asked a person decided nothing."""
    w = rig.world()
    with frozen("change window"):
        assert outcome(w.run("approve")) == "refused"
    (report,) = w.reports()
    assert report["guards"] == [r["why"] for r in report["refusals"]]
    assert "change window" in report["guards"][0]


def test_an_approval_that_was_held_is_not_found_again_after_the_freeze(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    with frozen("change window"):
        assert store.resume(run, {"decision": "approve", "who": "ana"}) == ""
        w.work()
    assert answer_run(run, {"decision": "reject", "who": "bo"}) == ""
    w.work()
    assert outcome(run) == "rejected"
    assert acts_done(rig.worlds, w.name) == []


def test_budget_trips_the_breaker_until_a_person_resets_it(rig: Rig) -> None:
    nodes = [rig.world() for _ in range(3)]
    fleet = rig.home / "many.yaml"
    fleet.write_text("name: many\nnodes:\n" + "".join(f"  - {{name: {w.name}, local: true}}\n" for w in nodes))
    policy = rig.home / "tight.yaml"
    policy.write_text(rig.policy.read_text().replace("nodes: 100", "nodes: 2"))
    found = [outcome(w.run("auto", fleet=str(fleet), policy=str(policy))) for w in nodes]
    assert found == ["fixed", "fixed", "refused"]
    assert [r["code"] for r in nodes[2].reports()[-1]["refusals"]] == ["budget-spent"]
    assert store.get_variable(breaker_name("many"))
    assert outcome(nodes[2].run("diagnose", fleet=str(fleet))) == "sick"  # diagnosis goes on
    assert reset_breaker("many")
    assert outcome(nodes[2].run("auto", fleet=str(fleet), policy=str(policy))) == "fixed"


def test_storm_of_one_cause_is_one_incident(rig: Rig) -> None:
    nodes = [rig.world() for _ in range(3)]
    fleet = rig.home / "storm.yaml"
    fleet.write_text("name: storm\nnodes:\n" + "".join(f"  - {{name: {w.name}, local: true}}\n" for w in nodes))
    policy = rig.home / "storm-policy.yaml"
    policy.write_text(rig.policy.read_text().replace("alike: 1000", "alike: 3"))
    for w in nodes[:2]:
        w.run("diagnose", fleet=str(fleet))
    run = nodes[2].run("auto", fleet=str(fleet), policy=str(policy))
    assert outcome(run) == "refused"
    assert codes(nodes[2], run) == ["common-cause"]
    assert any("one incident" in g for g in nodes[2].reports()[-1]["guards"])
    assert acts_done(rig.worlds, nodes[2].name) == []


def test_hands_off_node_is_refused(rig: Rig) -> None:
    w = rig.world()
    w.fleet.write_text(f"name: f-{w.name}\nnodes: [{{name: {w.name}, local: true, hands_off: true, reason: lab}}]\n")
    run = w.run("auto")
    assert outcome(run) == "refused"
    assert codes(w, run) == ["hands-off"]
    assert acts_done(rig.worlds, w.name) == []


def test_identity_that_changes_between_looks_is_refused_by_the_act(rig: Rig) -> None:
    w = rig.world()
    w.arm("acting", "SIGCONT")  # harmless; the fault file shows that acting was reached
    assert outcome(w.run("auto")) == "fixed"


def test_bad_configuration_fails_the_run_and_still_says_why(rig: Rig) -> None:
    w = rig.world()
    w.fleet.write_text("name: x\nnodes: [{name: a, hst: b}]\n")
    run = w.run("diagnose")
    state = store.read_run(run).state
    assert state is not None
    assert state.type.value == "FAILED"
    assert "hst" in (state.message or "")


def test_more_runs_than_the_server_gives_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 2)
    tag = f"paged-{uuid4().hex[:6]}"
    made = [
        records.create_record(
            records.ACT, {"n": k}, state=Completed(), key=f"{tag}/{k}", name=tag, tags=[store.ACT_TAG, tag], labels={}
        )
        for k in range(5)
    ]
    assert {r.id for r in store.find_runs([tag])} == {r.id for r in made}
    assert [r.id for r in store.find_runs([tag], limit=3)] == [r.id for r in reversed(made)][:3]


def test_a_switch_that_another_run_sets_at_the_same_moment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"switch_{uuid4().hex[:6]}"
    store.set_variable(name, {"by": "the other"})
    with monkeypatch.context() as m:
        m.setattr(SyncPrefectClient, "read_variable_by_name", lambda _c, _name: None)  # it was not there yet
        store.set_variable(name, {"by": "this one"})
    assert store.get_variable(name) == {"by": "this one"}
