"""`--wait` says what it waits for, and ends with an exit code of its own where no worker could carry the run on. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.objects import State, Worker
from prefect.exceptions import PrefectHTTPStatusError
from prefect.states import Completed, Running, Scheduled, Suspended

from deployments.cli import follow as module
from deployments.cli.follow import PATIENCE_S, SAY_EVERY_S, follow, why_untaken
from deployments.errors import NO_WORKER, CommandError
from flows import store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Callable[..., None]:
    """Gives the run a state from each of some seconds on."""

    def lives(*at: tuple[float, State[Any]]) -> None:
        def read(_: str) -> Any:
            state = next(s for since, s in reversed(at) if clock.now >= since)
            return SimpleNamespace(id=uuid4(), state=state, work_pool_name="far pool")

        monkeypatch.setattr(store, "read_run", read)

    return lives


def resuming() -> State[Any]:
    return Scheduled(name="Resuming")


def found(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, bool]) -> None:
    """What is found out about the pool, look after look; the last again and again."""
    left = list(answers)
    monkeypatch.setattr(module, "why_untaken", lambda _pool: left.pop(0) if len(left) > 1 else left[0])


def test_without_a_worker_the_wait_ends_and_says_how_to_start_one(
    clock: Clock, states: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states((0, resuming()))
    found(monkeypatch, ("no worker is there", True))
    with pytest.raises(CommandError, match=r"^not waited for any longer: no worker is there; .*`gpu-runbooks show ") as e:
        follow("x", quiet=True)
    assert e.value.exit_code == NO_WORKER == 7
    assert PATIENCE_S < clock.now < PATIENCE_S + 15
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "  no worker is there; waiting for 10 s …"
    assert len(said) >= PATIENCE_S / SAY_EVERY_S - 1


@pytest.mark.parametrize("why", ["", "the pool is paused"])
def test_with_a_worker_it_waits_as_long_as_it_takes_and_says_so(
    why: str, clock: Clock, states: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states((0, resuming()), (600, Running()), (620, Completed()))
    found(monkeypatch, (why, False))
    follow("x")
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.endswith("ing …")] == ["  Resuming …", "  Running …"]
    waits = [line for line in said if "; waiting for " in line]
    assert all((why or "no worker has taken the run yet") in line for line in waits)
    assert 600 / SAY_EVERY_S / 2 < len(waits) <= 600 / SAY_EVERY_S + 1
    assert clock.now >= 620


def test_a_worker_that_starts_meanwhile_is_waited_for(
    clock: Clock, states: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    states((0, resuming()), (3 * PATIENCE_S, Completed()))
    found(monkeypatch, ("none", True), ("none", True), ("", False), ("", False), ("none", True), ("", False))
    follow("x", quiet=True)
    assert clock.now >= 3 * PATIENCE_S


def test_a_run_that_is_taken_at_once_says_only_its_states(
    states: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states((0, resuming()), (6, Running()), (900, Completed()))
    monkeypatch.setattr(module, "why_untaken", lambda _pool: pytest.fail("asked"))
    follow("x")
    assert capsys.readouterr().err == "  Resuming …\n  Running …\n"


def test_an_answer_that_is_not_taken_is_not_waited_for(clock: Clock, states: Callable[..., None]) -> None:
    """The run asks again: nobody else may be there to answer."""
    states((0, resuming()), (2, Running()), (5, Suspended()), (500, Completed()))
    follow("x", quiet=True, or_asks=True)
    assert clock.now < 10
    follow("x", quiet=True)
    assert clock.now >= 500


def worker(age_s: float | None, every: int | None = 30) -> Worker:
    beat = None if age_s is None else NOW - timedelta(seconds=age_s)
    return Worker(name="w", work_pool_id=uuid4(), last_heartbeat_time=beat, heartbeat_interval_seconds=every)


def not_found() -> PrefectHTTPStatusError:
    """As the real client says it of a pool's workers (test_self_health.py asks a real server)."""
    asked = httpx.Request("POST", "http://127.0.0.1/api/work_pools/x/workers/filter")
    return PrefectHTTPStatusError("404", request=asked, response=httpx.Response(404, request=asked))


@pytest.fixture(params=["own", "local"])
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(module, "own_server", lambda: request.param == "own")
    monkeypatch.setattr("flows.clock.server_now", lambda: NOW)
    return bool(request.param == "own")


@pytest.mark.parametrize(
    ("workers", "paused", "why", "gone"),
    [
        (None, None, "the server has no work pool 'far pool'", True),
        ([], False, "no worker is there for the work pool 'far pool'", True),
        ([worker(91), worker(None), worker(31, 10)], False, "no worker is there for the work pool 'far pool'", True),
        ([worker(300), worker(89)], False, "", False),
        ([worker(89, None)], False, "", False),
        ([worker(1)], True, "the work pool 'far pool' is paused", False),
    ],
)
def test_why_no_worker_takes_it_and_what_to_do(
    workers: list[Worker] | None, paused: bool | None, why: str, gone: bool, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def read_work_pool(self, _: str) -> Any:
            return SimpleNamespace(is_paused=paused)

        def read_workers_for_work_pool(self, _: str) -> list[Worker]:
            if workers is None:
                raise not_found()
            return workers

    monkeypatch.setattr(store, "ask", lambda question: question(Client()))
    says, none_there = why_untaken("far pool")
    assert (says.startswith(why), none_there) == (True, gone)
    assert bool(says) == bool(why)
    if why:
        do = "prefect work-pool resume 'far pool'" if paused else "prefect worker start --pool 'far pool'"
        assert (do if own else "`gpu-runbooks up`") in says
