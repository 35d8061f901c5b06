"""Old reports judged by newer code: what the record lacks is unknown, what it has too much is left out."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Reading, Unknown, UnknownReason
from runbooks.core.replay import ReplayError, check_report, fit, replay, replay_with
from runbooks.core.verdict import Diagnosis, State


class Gpu(Frozen):
    index: int
    power_w: float


class Evidence(Frozen):
    node: str
    taken_at: datetime
    gpus: Reading[tuple[Gpu, ...]] = NOT_RECORDED
    leader: Reading[str] = NOT_RECORDED
    newer: Reading[int] = NOT_RECORDED


class Limits(Frozen):
    idle_s: float
    new_s: float


SEEN: list[Any] = []


def judge(evidence: Evidence, limits: Limits) -> Diagnosis:
    SEEN[:] = [evidence, limits]
    state = State.HEALTHY if isinstance(evidence.gpus, Known) else State.CANNOT_TELL
    return Diagnosis(state=state, headline=f"limits {limits.idle_s:g} {limits.new_s:g}")


def record(**changes: Any) -> dict[str, Any]:
    evidence = {
        "node": "a",
        "taken_at": "2026-03-07T03:12:05Z",
        "gpus": {"kind": "known", "value": [{"index": 0, "power_w": 60.0}], "source": None},
        "leader": {"kind": "absent", "proof": "none configured", "source": None},
    }
    return evidence | changes


def run(evidence: dict[str, Any], **limits: Any) -> Any:
    limits = limits or {"idle_s": 600}
    report = {
        "id": "r",
        "runbook": "x",
        "target": "a",
        "limits": limits,
        "diagnosis": {"state": "healthy", "headline": "h"},
    }
    return replay_with(report, evidence, Evidence, Limits, judge, {"idle_s": 1, "new_s": 2})


def test_recorded_limits_are_kept_and_newer_ones_filled_in() -> None:
    again = run(record())
    assert again.now.headline == "limits 600 2"
    assert again.notes == ("limit new_s: not recorded, today's value 2 is used",)
    assert again.recorded is not None
    assert again.same


def test_fields_newer_than_the_record_are_unknown() -> None:
    run(record())
    assert SEEN[0].newer == NOT_RECORDED
    assert SEEN[0].leader == Absent(proof="none configured")
    assert SEEN[0].taken_at == datetime(2026, 3, 7, 3, 12, 5, tzinfo=UTC)


def test_fields_that_are_gone_are_left_out_at_any_depth() -> None:
    gpus = {"kind": "known", "value": [{"index": i, "power_w": 60.0, "fan": 3} for i in range(9)], "source": None}
    again = run(record(gpus=gpus, old_field=1))
    assert again.now.state is State.HEALTHY
    assert len(SEEN[0].gpus.value) == 9
    assert "old_field: left out, today's code does not know it" in again.notes
    assert "gpus.known.value.fan: left out, today's code does not know it" in again.notes


def test_a_reading_in_another_form_is_unknown_and_nothing_else() -> None:
    again = run(record(gpus={"kind": "known", "value": [{"index": 0}, {"index": "x"}], "source": None}))
    assert isinstance(SEEN[0].gpus, Unknown)
    assert SEEN[0].gpus.reason is UnknownReason.NOT_RECORDED
    assert again.now.state is State.CANNOT_TELL
    assert not again.same
    assert [n for n in again.notes if n.startswith("gpus: not judged")]


def test_what_is_no_reading_cannot_be_made_up() -> None:
    evidence = record()
    del evidence["node"]
    with pytest.raises(ReplayError, match="node: Field required"):
        fit(evidence, Evidence, [])


def test_the_record_itself_is_not_changed() -> None:
    evidence = record(old_field=1)
    before = json.dumps(evidence)
    run(evidence)
    assert json.dumps(evidence) == before


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ([], "not a report"),
        ({}, "not a report"),
        ({"schema_version": 99}, "this version reads 1 to 1; use a newer gpu-runbooks"),
        ({"schema_version": "1"}, "report schema '1'"),
        ({"schema_version": 1, "results": []}, "a nightly report holds no evidence"),
        ({"schema_version": 1, "runbook": "nope", "evidence": {}}, "report of runbook 'nope'; there are:"),
        ({"schema_version": [[]], "evidence": {}}, "report schema 'a list'"),
        ({"schema_version": 1, "runbook": ["x"], "evidence": {}}, "report of runbook 'a list'; there are:"),
        ({"schema_version": 1, "runbook": "zombie-gpu", "evidence": {}, "limits": [1]}, "limits: expected a mapping, found a list"),
    ],
)
def test_what_is_no_report_is_named(report: Any, says: str) -> None:
    with pytest.raises(ReplayError) as e:
        check_report(report)
    assert says in str(e.value)


def overflows(_evidence: Evidence, limits: Limits) -> Diagnosis:
    """A judgment of a number that no reader makes."""
    return Diagnosis(state=State.HEALTHY, headline=str(int(limits.idle_s)))


def test_a_number_that_no_reader_makes_is_told() -> None:
    report = {"runbook": "x", "limits": {"idle_s": float("inf"), "new_s": 1}}
    with pytest.raises(ReplayError, match="a value that no reader makes"):
        replay_with(report, record(), Evidence, Limits, overflows, {})


def test_evidence_that_is_nested_too_deep_is_told() -> None:
    deep: list[Any] = []
    for _ in range(800):
        deep = [deep]
    with pytest.raises(ReplayError, match="nested too deep"):
        replay({"schema_version": 1, "runbook": "zombie-gpu", "evidence": {"node": deep}})
