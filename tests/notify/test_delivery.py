"""Telling people, on a real Prefect server with a real receiver: nothing lost, nothing twice, nothing delayed."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed

from flows import store
from flows.engine.approval import answer_run
from flows.notify import delivery, delivery_turn, retry
from flows.notify.delivery import deliver
from flows.notify.delivery_turn import take_turn
from flows.notify.notify_file import load_notifications
from flows.notify.outbox import DUE, FAILED, PROBLEM, delivery_on, mark_pending, message_on, prepare
from flows.notify.retry import retry_pending
from flows.reaper import sweep
from runbooks.core.outcome import Outcome
from runbooks.notify.message import message_of
from tasks.context import utc_now
from tasks.notify.outgoing import Outgoing, Sent
from tests.notify.conftest import Channels
from tests.notify.test_notify_pure import report
from tests.support.engine_rig import Rig


def news(target: str, outcome: Outcome = Outcome.UNHEALTHY, **more: object) -> FlowRun:
    """A run that has ended, and what it owes, as `publish` leaves it; nothing is sent yet."""
    run = store.create_run(
        "zombie-gpu/zombie-gpu",
        {"target": target},
        state=Completed(),
        key=None,
        name=f"zombie-gpu {target}",
        tags=[store.RUNBOOK_TAG, "runbook:zombie-gpu"],
        labels={"outcome": outcome.value},
    )
    facts = {"target": target, "fleet": f"fleet of {target}", "flow_run": str(run.id), "ended_at": utc_now()}
    message = message_of(report(outcome, **(facts | more)))
    labels, tags = prepare(message, utc_now())
    store.label(run.id, labels)
    mark_pending(str(run.id), tags)
    return run


def told_of(target: str, outcome: Outcome = Outcome.UNHEALTHY, **more: object) -> FlowRun:
    """The same, told by its own process."""
    run = news(target, outcome, **more)
    deliver(str(run.id))
    return store.read_run(run.id)


def name() -> str:
    return f"t{uuid4().hex[:8]}"


def titles(channels: Channels) -> list[str]:
    return [str(m["title"]) for m in channels.hook.got]


def test_a_plan_that_waits_then_its_outcome_each_told_once(rig: Rig, channels: Channels) -> None:
    w = rig.world()
    run = w.run("approve")
    (first,) = channels.hook.got
    assert "waits for a decision" in first["title"]
    assert first["type"] == "failure"
    text = str(first["message"])
    for part in ("Do now:", "Do NOT:\n- reboot", "Plan “clean up only”", "toy-fix on", f"http://ui.test/v2/runs/flow-run/{run}"):
        assert part in text
    assert "http://gw.test/approve/" in text
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    w.work()
    assert "fixed and verified" in titles(channels)[1]
    assert titles(channels)[0].split("]")[0] == titles(channels)[1].split("]")[0]  # one incident
    sweep()
    assert len(channels.hook.got) == 2
    assert DUE not in store.read_run(run).tags
    assert "/approve/" not in json.dumps(store.read_run(run).labels)  # links are never stored


def test_a_channel_that_fails_never_fails_the_fix_and_shows(rig: Rig, channels: Channels) -> None:
    w = rig.world()
    channels.hook.answer = 500
    run = w.run("auto")
    found = store.read_run(run)
    assert found.labels["outcome"] == "fixed"
    assert "(try 1 of 8)" in str(found.labels[PROBLEM])
    assert "secret-path" not in json.dumps(found.labels)
    (report,) = w.reports()
    assert any("not sent yet: hook" in e["what"] for e in report["timeline"])
    assert "secret-path" not in json.dumps(report)
    channels.hook.answer = 200
    sweep()
    assert channels.hook.got == []  # not before its time
    sweep(utc_now() + timedelta(seconds=20))
    assert len(channels.hook.got) == 1
    assert store.read_run(run).labels[PROBLEM] == ""


@pytest.mark.parametrize("point", ["reported"])
def test_killed_between_report_and_message_is_still_told(rig: Rig, channels: Channels, point: str) -> None:
    w = rig.world()
    w.arm(point)
    w.run("diagnose")
    assert channels.hook.got == []
    for _ in range(3):
        sweep(utc_now() + timedelta(seconds=200))
        w.work()
    assert len([m for m in channels.hook.got if w.name in str(m["title"])]) == 1


def test_a_night_is_one_message(rig: Rig, channels: Channels) -> None:
    w = rig.world()
    id_file = rig.home / f"{w.name}.night"
    parameters = {"fleet": str(w.fleet), "policy": None, "out": str(w.out)}
    job = {"do": "run", "slug": "nightly", "parameters": parameters, "id_file": str(id_file)}
    rig.wait(rig.start(job))
    (message,) = channels.hook.got
    assert "Nightly" in message["title"]
    assert f"{w.name}: pid of {w.name} is stuck" in message["message"]


def test_news_is_told_once_and_its_end_as_well(rig: Rig, channels: Channels) -> None:
    node = name()
    told_of(node)
    again = delivery_on(told_of(node))
    assert again is not None
    assert "already reported" in again.why
    for _ in range(2):
        told_of(node, Outcome.HEALTHY)
    assert [t.rpartition(": ")[2] for t in titles(channels)] == ["something is wrong", "healthy"]
    told_of(node)
    assert len(channels.hook.got) == 3  # it came back: news again


def test_gives_up_after_a_bounded_number_of_tries_and_says_so(rig: Rig, channels: Channels) -> None:
    channels.hook.answer = 404
    run = told_of(name())
    for i in range(8):
        retry_pending(utc_now() + timedelta(hours=1 + i))
    found = store.read_run(run.id)
    assert "given up" in str(found.labels[PROBLEM])
    assert FAILED in found.tags
    assert DUE not in found.tags


def test_a_sender_that_died_is_taken_over_after_a_minute(rig: Rig, channels: Channels) -> None:
    run = news(name())
    state = delivery_on(store.read_run(run.id))
    assert state is not None
    died = take_turn(run, state, utc_now())
    assert died is not None
    retry_pending(utc_now() + timedelta(seconds=30))
    assert channels.hook.got == []
    assert not died.lost()
    retry_pending(utc_now() + timedelta(seconds=70))
    assert len(channels.hook.got) == 1
    assert died.lost()
    message, after = message_on(store.read_run(run.id)), delivery_on(store.read_run(run.id))
    assert message is not None
    failed = {"hook": Sent(ok=False, said="it only slept")}
    assert delivery.settle(died, message, state, failed, utc_now()) == ()  # its successor has written what became of it
    assert delivery_on(store.read_run(run.id)) == after


def test_of_processes_that_tell_at_one_moment_one_sends(rig: Rig, channels: Channels) -> None:
    """The run's own process and two reapers."""
    runs = []
    for _ in range(6):
        runs.append(str(news(name()).id))
        at = time.time() + 0.3
        racers = [rig.start({"do": "tell", "run": run, "wait_until": at}) for run in (runs[-1], "", "", runs[-1])]
        assert [rig.wait(pid) for pid in racers] == [0] * 4
    retry_pending(utc_now())
    assert len(channels.hook.got) == len(runs)
    assert all(DUE not in store.read_run(run).tags for run in runs)


def test_a_digest_is_sent_by_one_of_two_reapers(rig: Rig, channels: Channels) -> None:
    quiet_now(channels)
    for _ in range(3):
        told_of(name(), Outcome.FIXED)
    channels.write()
    due = [r for r in store.find_runs([DUE]) if (s := delivery_on(r)) and s.held_until]
    held = [(r, m, s) for r in due if (m := message_on(r)) and (s := delivery_on(r))]
    config = load_notifications()
    assert config is not None
    with ThreadPoolExecutor(2) as reapers:  # both have read before either sends
        list(reapers.map(lambda _: retry._digest(held, config, utc_now()), range(2)))
    told_in = [t for t in titles(channels) if "message(s)" in t]
    assert sum(int(t.split(" message(s)")[0].rpartition(" ")[2]) for t in told_in) == 3


def test_a_sender_that_was_held_up_sends_nothing(rig: Rig, channels: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_turn, "BEGIN_S", -1.0)
    run = told_of(name())
    assert channels.hook.got == []
    assert "held up" in str(run.labels[PROBLEM])
    monkeypatch.undo()
    retry_pending(utc_now() + timedelta(seconds=20))
    assert len(channels.hook.got) == 1


def quiet_now(channels: Channels) -> None:
    begin, end = utc_now() - timedelta(hours=1), utc_now() + timedelta(hours=1)
    channels.write(f'quiet: {{zone: UTC, begin: "{begin:%H:%M}", end: "{end:%H:%M}"}}\n')


def test_what_needs_nobody_waits_for_the_end_of_quiet_hours(rig: Rig, channels: Channels) -> None:
    quiet_now(channels)
    nodes = [name(), name()]
    for node in nodes:
        told_of(node, Outcome.FIXED)
    assert channels.hook.got == []
    told_of(name(), Outcome.NOT_FIXED)
    retry_pending(utc_now())
    assert len(channels.hook.got) == 1  # somebody is needed: at once
    for _ in range(2):
        retry_pending(utc_now() + timedelta(hours=2))
    assert len(channels.hook.got) == 2
    assert "2 message(s)" in titles(channels)[1]
    assert all(node in channels.hook.got[1]["message"] for node in nodes)


def test_quiet_hours_do_not_hold_the_end_where_the_channel_keeps_the_incident(
    rig: Rig, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an incident that is over would escalate until morning."""
    ends: list[bool] = []

    def pager(_channel: object, out: Outgoing) -> Sent:
        ends.append(out.closing)
        return Sent(ok=True, said="sent", ref="dedup")

    monkeypatch.setattr(delivery, "send", pager)
    node = name()
    told_of(node)
    quiet_now(channels)
    told_of(node, Outcome.HEALTHY)
    assert ends == [False, True]


def test_targets_that_fail_alike_are_one_message(rig: Rig, channels: Channels) -> None:
    channels.write("fold: 2\n")
    nodes, fleet = [name() for _ in range(3)], name()
    for node in nodes:
        told_of(node, fleet=fleet)
    assert len(channels.hook.got) == 2
    assert f"Fails alike on 2 targets, reported once: {nodes[1]}, {nodes[0]}" in channels.hook.got[1]["message"]
    told_of(nodes[0], Outcome.FIXED, fleet=fleet)  # it was told of alone as well
    told_of(nodes[1], Outcome.HEALTHY, fleet=fleet)
    assert [retry_pending(utc_now()) for _ in range(2)] == [[], []]  # one is sick still
    told_of(nodes[2], Outcome.HEALTHY, fleet=fleet)
    for _ in range(2):
        retry_pending(utc_now())
    heads = [t.split("]")[0] for t in titles(channels)]
    assert [t.rpartition(": ")[2] for t in titles(channels)[2:]] == ["fixed and verified", "healthy"]
    assert (heads[2], heads[3]) == (heads[0], heads[1])  # each ends the incident that it belongs to
    assert "all 3 targets have recovered" in channels.hook.got[3]["message"]


def test_a_bad_notifications_file_stops_nothing_and_shows(rig: Rig, channels: Channels) -> None:
    channels.file.write_text("channels: {}\n", encoding="utf-8")
    found = told_of(name())
    assert "notifications.yaml: line 1: channels" in str(found.labels[PROBLEM])
    assert FAILED in found.tags
