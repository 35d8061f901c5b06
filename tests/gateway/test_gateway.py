"""The gateway as a process, against a real Prefect server: one run per alert and target, whatever happens around it."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from flows import store
from tests.support.engine_rig import Rig
from tests.support.gateway import Gateway, ago, firing, payload
from tests.support.toy import acts_done, write_world

pytestmark = pytest.mark.xdist_group("faults")
NODES = 8


class Fleet:
    """A fleet of toy targets and the gateway in front of it."""

    def __init__(self, rig: Rig, home: Path) -> None:
        self.rig = rig
        self.names = [f"g{uuid4().hex[:8]}" for _ in range(NODES)]
        self.file = home / "fleet.yaml"
        rows = "".join(f"  - {{name: {n}, local: true}}\n" for n in self.names)
        self.file.write_text(f"name: f-{self.names[0]}\nnodes:\n{rows}", encoding="utf-8")
        for n in self.names:
            write_world(rig.worlds, n, sick=True, identity=f"pid of {n}")
        self.gateway = Gateway(home, self.file, rig.policy).start()

    def runs(self, node: str) -> list[str]:
        """Ids of the runs on a node."""
        found = store.find_runs([store.RUNBOOK_TAG, "runbook:zombie-gpu"])
        return [str(r.id) for r in found if r.parameters.get("target") == node]

    def acts(self, node: str) -> int:
        """How often something was fixed there."""
        return len([x for x in acts_done(self.rig.worlds, node) if x.startswith("fix")])


@pytest.fixture(scope="module")
def fleet(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(rig, tmp_path_factory.mktemp("gateway"))
    yield made
    made.gateway.stop()


def test_an_alert_becomes_a_run_that_fixes_once(fleet: Fleet) -> None:
    node, start = fleet.names[0], ago(30)
    [first] = fleet.gateway.alert(firing(node, start=start))
    assert (first["outcome"], first["mode"]) == ("started", "auto")
    assert store.read_run(first["run"]).name == f"zombie-gpu {node}"  # 2xx: it is there
    again = [fleet.gateway.alert(firing(node, start=start))[0] for _ in range(5)]
    assert {a["outcome"] for a in again} == {"repeat"}
    fleet.gateway.quiet()
    assert store.read_run(first["run"]).labels["outcome"] == "fixed"
    assert fleet.gateway.alert(firing(node, start=start))[0]["outcome"] == "repeat"  # Alertmanager's repeat_interval
    assert fleet.gateway.alert(firing(node, start=start + timedelta(seconds=15)))[0]["outcome"] == "repeat"  # a replica
    assert (len(fleet.runs(node)), fleet.acts(node)) == (1, 1)


def test_many_duplicates_start_one_run_per_target(fleet: Fleet) -> None:
    nodes, start = fleet.names[1:4], ago(30)
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
    assert [(len(fleet.runs(n)), fleet.acts(n)) for n in nodes] == [(1, 1)] * 3


def test_a_second_alert_joins_the_run_in_progress_and_resolved_ends_a_waiting_one(fleet: Fleet) -> None:
    node = fleet.names[4]
    fleet.gateway.file.write_text(fleet.gateway.file.read_text().replace("mode: auto", "mode: approve"))
    [first] = fleet.gateway.alert(firing(node))
    [second] = fleet.gateway.alert(firing(node, "ToyOther"))
    assert (first["outcome"], second["outcome"], second["run"]) == ("started", "joined", first["run"])
    wait_for(first["run"], "PAUSED")
    [half] = fleet.gateway.alert(firing(node, status="resolved"))
    assert half["outcome"] == "resolved"
    assert state_of(first["run"]) == "PAUSED"  # the other alert still stands
    [whole] = fleet.gateway.alert(firing(node, "ToyOther", status="resolved"))
    assert whole["outcome"] == "closed"
    fleet.rig.wait(fleet.rig.start({"do": "work"}))  # what a worker does
    ended = store.read_run(first["run"])
    assert (ended.labels["outcome"], ended.state_name) == ("expired", "Not decided")
    assert ended.labels["report"]
    assert fleet.acts(node) == 0
    assert fleet.gateway.alert(firing(node, "ToyOther", status="resolved"))[0]["outcome"] == "nothing-open"
    fleet.gateway.file.write_text(fleet.gateway.file.read_text().replace("mode: approve", "mode: auto"))


def state_of(run: str) -> str:
    kind = store.read_run(run).state_type
    return kind.value if kind else ""


def wait_for(run: str, state: str, limit_s: float = 30) -> None:
    deadline = time.monotonic() + limit_s
    while state_of(run) != state:
        assert time.monotonic() < deadline, store.read_run(run).state
        time.sleep(0.1)


def test_what_is_not_mapped_or_has_no_target_starts_nothing(fleet: Fleet) -> None:
    [one] = fleet.gateway.alert(firing(fleet.names[5], "SomethingElse"))
    assert one["outcome"] == "unmapped"
    assert fleet.gateway.metric('gpu_runbooks_gateway_alerts_total{outcome="unmapped"') >= 1
    for hostile in ("*", "", "all", "nobody", "root@203.0.113.9", "$(reboot)", "a\nb", f"{fleet.names[5]}; rm -rf /", "../x"):
        response = fleet.gateway.post(payload([firing(hostile)]))
        assert response.status_code == 422, hostile
        assert response.json()["alerts"][0]["outcome"] == "unusable"
    assert fleet.runs(fleet.names[5]) == []
    assert fleet.gateway.post(payload([firing("x")]), authorization="Bearer wrong").status_code == 401
