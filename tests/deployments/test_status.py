"""What `gpu-runbooks status` prints: what waits and what is wrong first, times that a person reads, nothing finer than a second."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deployments.cli import ages
from deployments.cli.status import MOST, status_lines
from tests.core.test_times import SHOWN, TIME

NOW = datetime(2026, 3, 2, 2, 17, 5, 123456, tzinfo=UTC)


def at(**back: float) -> str:
    return (NOW - timedelta(**back)).isoformat()  # with microseconds, as servers write it


def facts(**more: Any) -> dict[str, Any]:
    health = {
        "reaper": {"who": "hub pid 7"}, "reaper_age_s": 8.4312, "reapers": 1, "pool_paused": False, "workers": 1,
        "open_runs": [], "locks": [],
    }  # fmt: skip
    given = {
        "at": NOW.isoformat(), "ui": "http://127.0.0.1:4200/v2/dashboard", "logs": "/s/logs", "own_server": False, "api_answers": True,
        "processes": {"server": True, "worker": True, "reaper": True, "gateway": False}, "freeze_file": None, "freeze": None,
        "breakers": {}, "waiting": [], "wrong": [], "running": [], "health": health,
    }  # fmt: skip
    return given | {k: v for k, v in more.items() if k != "health"} | {"health": health | more.get("health", {})}


def text(**more: Any) -> str:
    return "\n".join(status_lines(facts(**more), NOW))


def question(n: int = 0) -> dict[str, Any]:
    expires = (NOW + timedelta(minutes=57)).isoformat()
    return {"run": f"0000-{n}", "name": "calm-owl", "headline": "pid 7 is stopped", "age_s": 183.2, "expires": expires}


def test_on_a_calm_night() -> None:
    said = text()
    assert said.startswith("WAITS FOR A PERSON: nothing\nWRONG NOW: nothing is known here\nAT WORK: nothing\nSERVER\n")
    assert "last round 8 s ago, by hub pid 7" in said
    assert "`gpu-runbooks login`" in said


def test_everything_at_once_is_in_order_and_no_time_is_finer_than_a_second() -> None:
    wrong = {"target": "node-a", "runbook": "zombie-gpu", "outcome": "sick", "headline": "a GPU fell off the bus", "at": at(hours=30)}
    lock = {"owner": "hub", "holder": "hub pid 9", "act_run": "a1", "age_s": 61.77, "why": ""}
    stuck = lock | {"owner": "far", "why": "its step may still be at work"}
    said = text(
        waiting=[question()],
        wrong=[wrong],
        running=["brave-elk"],
        freeze={"at": at(minutes=3, seconds=4), "why": "change window"},
        breakers={"prod": {"at": at(hours=5), "why": "3 of 10 nodes"}},
        freeze_file=f"{at(minutes=3)} a disk is replaced here",
        health={
            "pool_paused": True,
            "reaper": None,
            "reaper_age_s": 312.99,
            "locks": [lock, stuck],
            "open_runs": [{"state": "running", "count": 1, "oldest_s": 4000.51, "oldest": "brave-elk"}],
        },
    )
    assert re.findall(r"^[A-Z][A-Z ]{4,}", said, re.M) == ["WAITS FOR A PERSON", "WRONG NOW", "AT WORK", "SERVER"]
    assert "  calm-owl, since 2026-03-02 02:14:01 UTC (3 min ago): pid 7 is stopped\n" in said
    assert "\n      Without an answer by 2026-03-02 03:14:05 UTC, the run" in said
    assert "\n      gpu-runbooks show 0000-0\n" in said
    assert "frozen for all since 2026-03-02 02:14:01 UTC (3 min ago): change window" in said
    assert "frozen on this machine since 2026-03-02 02:14:05 UTC (3 min ago): a disk is replaced here" in said
    assert "breaker of fleet prod tripped since 2026-03-01 21:17:05 UTC (5 h ago): 3 of 10 nodes" in said
    assert "no reaper is running; its last round was 5 min ago" in said
    assert "node-a (zombie-gpu, 30 h ago), Something is wrong: a GPU fell off the bus" in said
    work = said.partition("AT WORK")[2]
    assert "hub is being changed, since 2026-03-02 02:16:03 UTC (62 s ago)" in work
    assert "far is locked" not in work
    assert "1 running, the oldest for 67 min: brave-elk" in work
    assert not re.search(r"\d\.\d+ (s|min|h)\b|:\d\d:\d\d\.", said)
    assert [t for t in re.findall(TIME, said) if not re.fullmatch(SHOWN, t)] == []


def test_one_freeze_is_one_line() -> None:
    """`freeze` writes the file of this machine and the switch for all."""
    said = text(freeze_file=f"{at(minutes=3)} change window", freeze={"at": at(minutes=3), "why": "change window"})
    assert said.count("change window") == 1
    assert "frozen for all, and on this machine since 2026-03-02 02:14:05 UTC (3 min ago): change window; `gpu-runbooks" in said
    assert "frozen on this machine since 2026-03-02 02:14:05 UTC" in text(freeze_file=f"{at(minutes=3)} change window")


def test_what_is_missing_here_is_wrong() -> None:
    said = text(processes={"server": True, "worker": False, "reaper": True, "gateway": False})
    assert "not running on this machine: worker; `gpu-runbooks up`" in said
    assert "not running" not in text(own_server=True, processes={"server": False, "worker": False, "reaper": False, "gateway": False})


@pytest.mark.parametrize(("own", "workers", "says"), [(True, 0, True), (True, None, True), (True, 2, False), (False, 0, False)])
def test_an_own_server_without_a_worker_is_wrong(own: bool, workers: int | None, says: bool) -> None:
    assert ("no worker is there" in text(own_server=own, health={"workers": workers})) == says


def test_a_silent_server_is_what_is_wrong() -> None:
    known_here = ("ui", "logs", "own_server", "api_answers", "processes", "freeze_file")
    silent = {k: v for k, v in facts(api_answers=False).items() if k in known_here} | {"error": "the Prefect server at X is gone"}
    said = "\n".join(status_lines(silent, NOW))
    assert said.startswith("WRONG NOW\n  nothing can be asked or changed: the Prefect server at X is gone\n")
    assert "last line" not in said
    assert "WAITS" not in said


def test_where_no_server_was_ever_started_no_log_in_is_offered() -> None:
    said = text(ui=None, api_answers=False, error="no server")
    assert "UI:      none yet" in said
    assert "log-in" not in said


def test_a_hundred_questions_are_counted() -> None:
    said = text(waiting=[question(n) for n in range(100)])
    assert said.count("gpu-runbooks show") == MOST
    assert f"… and {100 - MOST} more" in said


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (99.4, "99 s"), (100, "2 min"), (5999, "100 min"), (6000, "2 h"), (172_800, "2 days"), (-3, "0 s")]
)
def test_span(seconds: float, words: str) -> None:
    assert ages.span(seconds) == words


def test_a_time_of_another_zone_or_none() -> None:
    assert ages.since(datetime.fromisoformat("2026-03-02T03:14:05+01:00"), NOW) == "since 2026-03-02 02:14:05 UTC (3 min ago)"
    assert ages.moment("2026-03-02T02:14:05") == NOW - timedelta(minutes=3, microseconds=123456)
    assert ages.moment("soon") is None
