"""Many gateways at once, without the memory of one: the server lets one of them create the next run."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from prefect.states import Completed

from flows import store
from flows.alert_notes import resolved
from flows.alerts import AlertOutcome, AlertPlacement, AlertStart, place, resolve
from tests.support.engine_rig import Rig
from tests.support.set_state import set_state


def start(target: str, key: str, mark: str = "m", **more: object) -> AlertStart:
    given = {"parameters": {"target": target, "mode": "diagnose", "fleet": "/f.yaml"}, "at": datetime.now(UTC)} | more
    return AlertStart(runbook="zombie-gpu", target=target, fleet="/f.yaml", key=key, mark=mark, alert="Toy", **given)


def placed(starts: list[AlertStart]) -> list[AlertPlacement]:
    with ThreadPoolExecutor(len(starts)) as pool:
        return list(pool.map(place, starts))


def test_one_of_many_gateways_starts_the_run(rig: Rig) -> None:
    target = f"c{uuid4().hex[:8]}"
    found = placed([start(target, "one")] * 4 + [start(target, f"k{i}", f"m{i}") for i in range(4)])
    assert [p.done for p in found].count(AlertOutcome.STARTED) == 1
    assert {p.done for p in found} <= {AlertOutcome.STARTED, AlertOutcome.REPEAT, AlertOutcome.JOINED}
    [run] = {p.run for p in found}
    set_state(run, Completed(message="done"))
    assert place(start(target, "one")).done is AlertOutcome.REPEAT  # although it has ended
    late = datetime.now(UTC) + timedelta(seconds=200)
    again = placed([start(target, "two", "m", at=late)] * 4)  # the same fault, much later
    assert [p.done for p in again].count(AlertOutcome.STARTED) == 1
    [second] = {p.run for p in again}
    assert second != run
    assert resolve(start(target, "two", "m")).done is AlertOutcome.RESOLVED
    assert resolved(store.read_run(second))
    assert place(start(target, "three", "m")).done is AlertOutcome.JOINED
    assert not resolved(store.read_run(second))  # it is back
    assert resolve(start(target, "three", "m")).done is AlertOutcome.RESOLVED
    set_state(second, Completed(message="done"))
    assert resolve(start(target, "two", "m")).done is AlertOutcome.NOTHING
    last = place(start(target, "four", "n", at=late))
    set_state(last.run, Completed(message="done"))
    assert place(start(target, "three", "m", at=late)).done is AlertOutcome.REPEAT  # had joined the run before
