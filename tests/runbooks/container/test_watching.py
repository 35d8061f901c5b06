"""What the watch makes of what it sees: which fault, when a run is due, when it stops; and the minutes before in words."""

from datetime import UTC, datetime, timedelta

import pytest

from runbooks.container.before import Sample, story
from runbooks.container.watching import (
    Case,
    ContainerFault,
    ContainerSeen,
    Patience,
    after_run,
    follow,
    is_due,
    trouble_of,
)
from runbooks.core.outcome import Outcome
from runbooks.core.policy import Mode

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
ID = "a" * 64
WELL = ContainerSeen(id=ID, status="running", started="2026-03-02T11:00:00Z", app=True, ray_node="n1")
PATIENCE = Patience()


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({}, None),
        ({"status": "paused"}, None),
        ({"app": None, "ray_node": None}, None),
        ({"status": "exited", "finished": "T"}, f"died-{ID[:12]}-T"),
        ({"status": "dead", "finished": "T"}, f"died-{ID[:12]}-T"),
        ({"status": "missing"}, "missing"),
        ({"status": "restarting"}, f"loop-{ID[:12]}"),
        ({"app": False}, f"app-{ID[:12]}-2026-03-02T11:00:00Z"),
        ({"ray_node": ""}, f"ray-{ID[:12]}-2026-03-02T11:00:00Z"),
        ({"health": "unhealthy"}, f"unhealthy-{ID[:12]}-2026-03-02T11:00:00Z"),
        ({"status": "exited", "engine_down": "refused"}, "engine"),
        ({"engine_down": "refused", "unreachable": "timed out"}, "node"),
    ],
)
def test_the_fault_nearest_to_the_machine_is_named(change: dict[str, object], key: str | None) -> None:
    found = trouble_of("w", WELL.model_copy(update=change), PATIENCE)
    assert (found.key if found else None) == key


def begun(change: dict[str, object], was_well: bool = True) -> Case:
    trouble = trouble_of("w", WELL.model_copy(update=change), PATIENCE)
    case = follow(None, trouble, was_well, NOW)
    assert case is not None
    return case


def test_a_death_is_due_at_once_and_a_flicker_is_not() -> None:
    assert is_due(begun({"status": "exited"}), NOW)
    assert not is_due(begun({"engine_down": "x"}), later(9))
    assert is_due(begun({"engine_down": "x"}), later(11))
    assert not is_due(begun({"unreachable": "x"}), later(29))


def test_an_application_that_comes_up_is_given_time_one_that_was_up_is_not() -> None:
    assert not is_due(begun({"app": False}, was_well=False), later(29))
    assert is_due(begun({"app": False}, was_well=True), later(2))
    assert is_due(begun({"ray_node": ""}, was_well=True), later(2))


def test_the_same_fault_goes_on_another_begins_anew_none_ends_it() -> None:
    case = begun({"status": "exited", "finished": "1"}).model_copy(update={"tries": 3})
    same = trouble_of("w", WELL.model_copy(update={"status": "exited", "finished": "1"}), PATIENCE)
    other = trouble_of("w", WELL.model_copy(update={"status": "exited", "finished": "2"}), PATIENCE)
    assert follow(case, same, False, later(5)) is case
    fresh = follow(case, other, False, later(5))
    assert fresh is not None
    assert fresh.tries == 0
    assert follow(case, None, False, later(5)) is None


@pytest.mark.parametrize(
    ("outcome", "causes", "mode", "done"),
    [
        (Outcome.FIXED, (), Mode.AUTO, True),
        (Outcome.HEALTHY, (), Mode.AUTO, True),
        (Outcome.WAITING, (), Mode.AUTO, True),
        (Outcome.REJECTED, (), Mode.AUTO, True),
        (Outcome.UNHEALTHY, ("too-many-deaths",), Mode.AUTO, True),
        (Outcome.UNHEALTHY, ("container-missing",), Mode.AUTO, True),
        (Outcome.UNHEALTHY, ("head-gone",), Mode.AUTO, False),
        (Outcome.UNHEALTHY, ("head-gone",), Mode.DIAGNOSE, True),
        (Outcome.NOT_FIXED, (), Mode.AUTO, False),
        (Outcome.CANNOT_TELL, (), Mode.AUTO, False),
        (Outcome.REFUSED, (), Mode.AUTO, False),
        (None, (), Mode.AUTO, False),
    ],
)
def test_after_a_run(outcome: Outcome | None, causes: tuple[str, ...], mode: Mode, done: bool) -> None:
    case = after_run(begun({"status": "exited"}), outcome, causes, mode, PATIENCE, NOW)
    assert bool(case.done) == done
    assert is_due(case, later(3600)) != done


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.NOT_FIXED, [15, 30, 60, 120, 240, 480, 900, 900, 900, 900]),
        (Outcome.CANNOT_TELL, [2, 4, 8, 16, 32, 64, 128, 256, 512, 900]),  # what was missing may be told in a moment
    ],
)
def test_tries_are_spread_exponentially_up_to_a_quarter_of_an_hour(outcome: Outcome, expected: list[float]) -> None:
    case, waits = begun({"status": "exited"}), []
    for _ in range(10):
        case = after_run(case, outcome, (), Mode.AUTO, PATIENCE, NOW)
        waits.append((case.next_at - NOW).total_seconds())
    assert waits == expected
    case = after_run(begun({"status": "exited"}), None, (), Mode.AUTO, PATIENCE, NOW)
    assert case.next_at == later(2)


def sample(at: float, own: int | None, available: int) -> Sample:
    return Sample(
        at=later(at), memory_total_bytes=100 << 20, memory_available_bytes=available << 20, load=1 - at / 100,
        disk_free_bytes={"/": 5 << 20}, own_memory_bytes=None if own is None else own << 20,
        own_limit_bytes=64 << 20, own_cpu_s=1000 + at,
    )  # fmt: skip


def test_the_minutes_before_are_told_without_those_after() -> None:
    part = [sample(-5000, 1, 99), sample(-60, 10, 80), sample(-30, 60, 20), sample(-5, 50, 30), sample(20, None, 90)]
    lines = story(part, NOW)
    assert lines[0] == "the watch has 3 samples over 55 s, the last one 5 s before the end"
    assert "its memory: 10 MiB, peak 60 MiB, at the end 50 MiB of 64 MiB" in lines
    assert "its CPU: 55.0 s used in 55 s" in lines
    assert any("lowest 20 MiB" in line for line in lines)
    assert story(part[:2], NOW) == ()


def test_a_trouble_keeps_its_key_through_json() -> None:
    trouble = ContainerFault(key="k", words="w")
    assert ContainerFault.model_validate_json(trouble.model_dump_json()) == trouble
