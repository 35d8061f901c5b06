"""The gateway as a process, against a real Prefect server: one run per alert and target, whatever happens around it."""

import threading
import time
from datetime import timedelta

from flows import store
from tests.support.gateway import ago, firing, payload
from tests.support.gateway_fleet import GatewayFleet


def test_an_alert_becomes_a_run_that_fixes_once(fleet: GatewayFleet) -> None:
    [node], start = fleet.take(1), ago(30)
    [first] = fleet.gateway.alert(firing(node, start=start))
    assert (first["outcome"], first["mode"]) == ("started", "auto")
    assert store.read_run(first["run"]).name == f"zombie-gpu {node}"  # 2xx: it is there
    again = [fleet.gateway.alert(firing(node, start=start))[0] for _ in range(5)]
    assert {a["outcome"] for a in again} == {"repeat"}
    fleet.gateway.quiet()
    assert store.read_run(first["run"]).labels["outcome"] == "fixed"
    assert fleet.gateway.alert(firing(node, start=start))[0]["outcome"] == "repeat"  # Alertmanager's repeat_interval
    assert fleet.gateway.alert(firing(node, start=start + timedelta(seconds=15)))[0]["outcome"] == "repeat"  # a replica
    assert (len(fleet.runs(node)), fleet.fixes(node)) == (1, 1)


def test_many_duplicates_start_one_run_per_target(fleet: GatewayFleet) -> None:
    nodes, start = fleet.take(3, mode="diagnose"), ago(30)
    bodies = [[firing(n, start=start) for n in nodes] for _ in range(10)]
    outcomes: list[str] = []

    def send(body: list[dict[str, object]]) -> None:
        outcomes.extend(a["outcome"] for a in fleet.gateway.alert(*body))

    threads = [threading.Thread(target=send, args=(b,)) for b in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (outcomes.count("started"), len(outcomes)) == (3, 30)
    fleet.gateway.quiet()
    assert [len(fleet.runs(n)) for n in nodes] == [1, 1, 1]


def test_a_second_alert_joins_the_run_in_progress_and_resolved_ends_a_waiting_one(fleet: GatewayFleet) -> None:
    [node] = fleet.take(1, mode="approve")
    [first] = fleet.gateway.alert(firing(node))
    [second] = fleet.gateway.alert(firing(node, "ToyOther"))
    assert (first["outcome"], second["outcome"], second["run"]) == ("started", "joined", first["run"])
    wait_for(first["run"], "PAUSED")
    [half] = fleet.gateway.alert(firing(node, status="resolved"))
    assert half["outcome"] == "resolved"
    assert state_of(first["run"]) == "PAUSED"  # the other alert still stands
    [whole] = fleet.gateway.alert(firing(node, "ToyOther", status="resolved"))
    assert whole["outcome"] == "closed"
    fleet.rig.wait(fleet.rig.start_work(fleet.file))  # what a worker does
    ended = store.read_run(first["run"])
    assert (ended.labels["outcome"], ended.state_name) == ("expired", "Not decided")
    assert ended.labels["report"]
    assert fleet.fixes(node) == 0
    assert fleet.gateway.alert(firing(node, "ToyOther", status="resolved"))[0]["outcome"] == "nothing-open"


def state_of(run: str) -> str:
    kind = store.read_run(run).state_type
    return kind.value if kind else ""


def wait_for(run: str, state: str, limit_s: float = 30) -> None:
    deadline = time.monotonic() + limit_s
    while state_of(run) != state:
        assert time.monotonic() < deadline, store.read_run(run).state
        time.sleep(0.1)


def test_what_is_not_mapped_or_has_no_target_starts_nothing(fleet: GatewayFleet) -> None:
    [node] = fleet.take(1)
    [one] = fleet.gateway.alert(firing(node, "SomethingElse"))
    assert one["outcome"] == "unmapped"
    assert fleet.gateway.metric('gpu_runbooks_gateway_alerts_total{outcome="unmapped"') >= 1
    for hostile in ("*", "", "all", "nobody", "root@203.0.113.9", "$(reboot)", "a\nb", f"{node}; rm -rf /", "../x"):
        response = fleet.gateway.post(payload([firing(hostile)]))
        assert response.status_code == 422, hostile
        assert response.json()["alerts"][0]["outcome"] == "unusable"
    assert fleet.runs(node) == []
    assert fleet.gateway.post(payload([firing("x")]), authorization="Bearer wrong").status_code == 401
