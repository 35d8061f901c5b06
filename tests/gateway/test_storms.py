"""Storms: something is killed meanwhile, a fleet fails as one, two alerts meet. No alert lost, none acted on twice."""

import threading
import time

import pytest

from flows import store
from flows.engine.guards import breaker_name
from tests.faults.test_worker import start_worker
from tests.scorecard import notes
from tests.support.engine_rig import Rig, kill_and_wait
from tests.support.gateway import ALERTS, ago, firing
from tests.support.gateway_fleet import POLICY, GatewayFleet
from tests.support.soak import record

STORM = "a storm of alerts"


def sizes(short: int, long: int) -> list[object]:
    """A short count in every test run, the long one in the soak."""
    return [short, pytest.param(long, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


def ended_once(fleet: GatewayFleet) -> None:
    """Every target has a run, every run ended, each target was fixed once and no more."""
    runs = fleet.runs()
    assert {r.parameters["target"] for r in runs} == set(fleet.names)
    assert [r for r in runs if not (r.state and r.state.is_final())] == []
    assert {n: fleet.fixes(n) for n in fleet.names} == dict.fromkeys(fleet.names, 1)


@pytest.mark.parametrize("size", sizes(3, 50))
def test_gateway_server_and_worker_are_killed_in_a_storm(rig: Rig, fleet: GatewayFleet, size: int) -> None:
    fleet.take(size)
    start = ago(60)
    bodies = [[firing(n, start=start)] for n in fleet.names for _ in range(2)]
    answers: list[dict[str, object]] = []
    sender = fleet.send_in_background(bodies, answers)
    time.sleep(1.5)
    notes.fault("SIGKILL of the gateway", STORM)
    fleet.gateway.kill()
    fleet.gateway.start()
    worker = start_worker(rig) if size > 10 else None  # the short count leaves the worker to the reaper's tests
    notes.fault("SIGKILL of the server", STORM)
    kill_and_wait(rig.server_pid())
    refused = fleet.gateway.post({"version": "4", "alerts": [firing(fleet.names[0], "ToyLate")]})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    rig.start_server()
    if worker:
        notes.fault("SIGKILL of the worker", STORM)
        kill_and_wait(worker.pid)
    sender.join(300)
    assert len(answers) == len(bodies)
    fleet.gateway.quiet(1200)  # they come to an end; how fast is measured elsewhere
    fleet.carry_on()
    ended_once(fleet)
    if size > 10:
        record("gateway_kill_storm", {"targets": size, "alerts": len(answers), "lost": 0, "fixed_twice": 0})


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.scored(fault="1,000 duplicates of 50 alerts", point=STORM)
def test_a_thousand_duplicates_on_fifty_targets(fleet: GatewayFleet) -> None:
    fleet.take(50, mode="diagnose")
    start = ago(60)
    began = time.monotonic()
    answers = fleet.send([[firing(n, start=start)] for _ in range(20) for n in fleet.names])
    seconds = time.monotonic() - began
    fleet.gateway.quiet(600)
    outcomes = [a["outcome"] for a in answers]
    assert (len(outcomes), len(fleet.runs())) == (1000, 50)
    told = outcomes.count("started")  # of a run whose answer was lost, the sender that comes again is told that it is there
    assert 50 - fleet.not_taken <= told <= 50
    facts = {"alerts": 1000, "targets": 50, "runs": 50, "seconds_to_answer_all": round(seconds, 1)}
    record("gateway_duplicates", facts)


def pair(fleet: GatewayFleet, node: str, apart_s: float) -> list[str]:
    """Two different alerts for one target, so far apart; what became of each."""
    said: list[str] = []

    def send(name: str, wait: float) -> None:
        time.sleep(wait)
        said.extend(a["outcome"] for a in fleet.gateway.alert(firing(node, name)))

    threads = [threading.Thread(target=send, args=a) for a in (("ToyOne", 0.0), ("ToyTwo", apart_s))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sorted(said)


@pytest.mark.parametrize("tries", sizes(3, 200))
def test_two_alerts_for_one_target_are_one_run(fleet: GatewayFleet, tries: int) -> None:
    notes.tries("two alerts for one target 0-50 ms apart", "the gateway", tries)
    fleet.take(tries)
    said = [pair(fleet, node, 0.05 * i / max(1, tries - 1)) for i, node in enumerate(fleet.names)]
    fleet.gateway.quiet(3000)
    assert said == [["joined", "started"]] * tries
    ended_once(fleet)
    if tries > 10:
        record("gateway_pairs", {"tries": tries, "apart_ms": "0-50", "two_acts": 0, "two_runs": len(fleet.runs()) - tries})


@pytest.mark.parametrize("size", sizes(10, 50))
@pytest.mark.scored(fault="more targets fail at once than the budget allows", point=STORM)
def test_a_third_of_the_fleet_stops_at_the_budget(fleet: GatewayFleet, size: int) -> None:
    """The breaker may trip before the last allowed act began: never more than allowed, and the others are refused."""
    nodes, alerting = fleet.data["nodes"], 3 * size // 10
    names = fleet.take(alerting)
    alone = [n for n in nodes if n["name"] in names]
    others = [n for n in nodes if n not in alone][: size - alerting]
    fleet.write(ALERTS, POLICY | {"budget": {"share": 0.1}}, {"name": f"b-{names[0]}", "nodes": alone + others})
    began = time.monotonic()
    fleet.send([[firing(n)] for n in names])
    seconds = time.monotonic() - began
    fleet.gateway.quiet(300)
    outcomes = [str(r.labels.get("outcome")) for r in fleet.runs()]
    assert len(outcomes) == alerting
    assert set(outcomes) <= {"fixed", "refused"}
    assert sum(fleet.fixes(n) for n in names) <= size // 10
    assert outcomes.count("refused") >= alerting - size // 10
    assert store.get_variable(breaker_name(f"b-{names[0]}"))
    if size > 10:
        facts = {"nodes": size, "alerting": alerting, "allowed": size // 10, "fixed": outcomes.count("fixed")}
        record("gateway_budget", facts | {"refused": outcomes.count("refused"), "sent_within_s": round(seconds, 1)})


@pytest.mark.scored(fault="many targets fail alike", point=STORM)
def test_many_targets_alike_only_diagnose(fleet: GatewayFleet) -> None:
    fleet.take(3, storm={"settle_s": 2, "alike": 2})
    answers = [fleet.gateway.alert(firing(n))[0] for n in fleet.names]
    assert [a["mode"] for a in answers[1:]] == ["diagnose", "diagnose"]
    fleet.gateway.quiet(120)
    assert [fleet.fixes(n) for n in fleet.names] == [0, 0, 0]  # an automatic first one sees the others while it settles
    assert "alike" in str(answers[2]["why"])
