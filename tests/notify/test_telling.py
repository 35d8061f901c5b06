"""Telling people, on a real Prefect server with a real receiver: nothing lost, nothing twice, nothing delayed."""

import json
from datetime import timedelta

import pytest

from flows import store
from flows.approval import answer_run
from flows.outbox import DUE, FAILED, PROBLEM, told_on
from flows.reaper import sweep
from tasks.context import utc_now
from tests.notify.conftest import Told
from tests.support.engine_rig import Rig
from tests.support.toy import write_world

pytestmark = pytest.mark.xdist_group("prefect")


def titles(told: Told) -> list[str]:
    return [str(m["title"]) for m in told.hook.got]


def test_a_plan_that_waits_then_its_outcome_each_told_once(rig: Rig, told: Told) -> None:
    w = rig.world()
    run = w.run("approve")
    (first,) = told.hook.got
    assert "waits for a decision" in first["title"]
    assert first["type"] == "failure"
    text = str(first["message"])
    for part in ("Do now:", "Do NOT:\n- reboot", "Plan “clean up only”", "toy-fix on", f"http://ui.test/runs/flow-run/{run}"):
        assert part in text
    assert "http://gw.test/approve/" in text
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    w.work()
    assert "fixed, and seen fixed" in titles(told)[1]
    assert titles(told)[0].split("]")[0] == titles(told)[1].split("]")[0]  # one incident
    sweep()
    assert len(told.hook.got) == 2
    assert DUE not in store.read_run(run).tags
    assert "/approve/" not in json.dumps(store.read_run(run).labels)  # links are never stored


def test_news_is_told_once_and_its_end_as_well(rig: Rig, told: Told) -> None:
    w = rig.world()
    w.run("diagnose")
    again = w.run("diagnose")
    assert len(told.hook.got) == 1
    state = told_on(store.read_run(again))
    assert state is not None
    assert "told already" in state.why
    write_world(rig.worlds, w.name, sick=False, identity="x")
    w.run("diagnose")
    w.run("diagnose")
    assert [t.rpartition(": ")[2] for t in titles(told)] == ["something is wrong", "healthy"]


def test_a_channel_that_fails_never_fails_the_fix_and_shows(rig: Rig, told: Told) -> None:
    w = rig.world()
    told.hook.answer = 500
    run = w.run("auto")
    found = store.read_run(run)
    assert found.labels["outcome"] == "fixed"
    assert "(try 1 of 8)" in str(found.labels[PROBLEM])
    assert "secret-path" not in json.dumps(found.labels)
    (report,) = w.reports()
    assert any("not told yet: hook" in e["what"] for e in report["timeline"])
    assert "secret-path" not in json.dumps(report)
    told.hook.answer = 200
    sweep()
    assert told.hook.got == []  # not before its time
    sweep(utc_now() + timedelta(seconds=20))
    assert len(told.hook.got) == 1
    assert store.read_run(run).labels[PROBLEM] == ""


def test_gives_up_after_a_bounded_number_of_tries_and_says_so(rig: Rig, told: Told) -> None:
    w = rig.world()
    told.hook.answer = 404
    run = w.run("diagnose")
    for i in range(8):
        sweep(utc_now() + timedelta(hours=1 + i))
    found = store.read_run(run)
    assert "given up" in str(found.labels[PROBLEM])
    assert FAILED in found.tags
    assert DUE not in found.tags


@pytest.mark.parametrize("point", ["reported"])
def test_killed_between_report_and_message_is_still_told(rig: Rig, told: Told, point: str) -> None:
    w = rig.world()
    w.arm(point)
    w.run("diagnose")
    assert told.hook.got == []
    for _ in range(3):
        sweep(utc_now() + timedelta(seconds=200))
        w.work()
    assert len(told.hook.got) == 1


def test_what_needs_nobody_waits_for_the_end_of_quiet_hours(rig: Rig, told: Told) -> None:
    now = utc_now()
    begin, end = now - timedelta(hours=1), now + timedelta(hours=1)
    told.write(f'quiet: {{zone: UTC, begin: "{begin:%H:%M}", end: "{end:%H:%M}"}}\n')
    one, two, bad = rig.world(), rig.world(), rig.world(unfixable=True)
    one.run("auto")
    two.run("auto")
    assert told.hook.got == []
    bad.run("auto")
    assert len(told.hook.got) == 1  # somebody is needed: at once
    sweep()
    assert len(told.hook.got) == 1
    sweep(now + timedelta(hours=2))
    assert len(told.hook.got) == 2
    assert "2 thing(s)" in titles(told)[1]
    assert one.name in told.hook.got[1]["message"]
    assert two.name in told.hook.got[1]["message"]
    sweep(now + timedelta(hours=2))
    assert len(told.hook.got) == 2


def test_targets_that_fail_alike_are_one_message(rig: Rig, told: Told) -> None:
    told.write("fold: 2\n")
    nodes = [rig.world() for _ in range(3)]
    fleet = rig.home / f"alike-{nodes[0].name}.yaml"
    lines = "".join(f"  - {{name: {w.name}, local: true}}\n" for w in nodes)
    fleet.write_text(f"name: alike-{nodes[0].name}\nnodes:\n{lines}", encoding="utf-8")
    for w in nodes:
        w.run("diagnose", fleet=str(fleet))
    assert len(told.hook.got) == 2
    assert f"Fails alike on 2 targets, told once: {nodes[1].name}, {nodes[0].name}" in told.hook.got[1]["message"]


def test_a_night_is_one_message(rig: Rig, told: Told) -> None:
    w = rig.world()
    id_file = rig.home / f"{w.name}.night"
    parameters = {"fleet": str(w.fleet), "policy": None, "out": str(w.out)}
    job = {"do": "run", "slug": "nightly", "parameters": parameters, "id_file": str(id_file)}
    rig.wait(rig.start(job))
    (message,) = told.hook.got
    assert "Nightly" in message["title"]
    assert f"{w.name}: pid of {w.name} is stuck" in message["message"]


def test_a_bad_notifications_file_stops_nothing_and_shows(rig: Rig, told: Told) -> None:
    told.file.write_text("channels: {}\n", encoding="utf-8")
    run = rig.world().run("auto")
    found = store.read_run(run)
    assert found.labels["outcome"] == "fixed"
    assert "notifications.yaml: line 1: channels" in str(found.labels[PROBLEM])
    assert FAILED in found.tags


def test_quiet_hours_do_not_hold_the_end_where_the_channel_keeps_the_incident(
    rig: Rig, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an incident that is over would escalate until morning."""
    from flows import telling
    from tasks.notify.send import Outgoing, Sent

    sent: list[tuple[str, bool]] = []

    def pager(_channel: object, out: Outgoing) -> Sent:
        sent.append((out.title, out.closing))
        return Sent(ok=True, said="sent", ref="dedup")

    monkeypatch.setattr(telling, "send", pager)
    told.hook.answer = 500  # the run's own process gets nowhere: the reaper, here, tells
    w = rig.world()
    run = w.run("diagnose")
    sweep(utc_now() + timedelta(seconds=20))
    begin, end = utc_now() - timedelta(hours=1), utc_now() + timedelta(hours=1)
    told.write(f'quiet: {{zone: UTC, begin: "{begin:%H:%M}", end: "{end:%H:%M}"}}\n')
    w.arm("reported")
    write_world(rig.worlds, w.name, sick=False, identity="x")
    well = w.run("diagnose")  # killed before it tells
    for _ in range(2):
        sweep(utc_now() + timedelta(seconds=200))
        w.work()
    assert [closing for _, closing in sent] == [False, True]
    assert DUE not in store.read_run(run).tags
    state = told_on(store.read_run(well))
    assert state is not None
    assert state.channels["hook"].ok
