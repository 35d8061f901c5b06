"""The probe that starts a container, against an engine that says what it is told: every answer has one word, and none is a success
but a start of ours that holds."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tasks.container.probes import start_container
from tasks.container.probes.engine_api import Api

ID = "a" * 64
ENDED = {"Status": "exited", "ExitCode": 137, "StartedAt": "2026-03-02T10:50:00.123456789Z"}
RUNS = {"Status": "running", "ExitCode": 0, "StartedAt": "2026-03-02T12:00:01Z"}
AT = "2026-03-02T10:50:00.123456+00:00"
ASK: dict[str, Any] = {
    "engine": ["true"], "socket": "/nowhere", "name": "box", "id": ID, "started_at": AT, "setup": [["set"]], "setup_timeout_s": 60,
    "mounts": [["/m", ["mount"]]], "start": ["go"], "detached": True,
}  # fmt: skip


def told(
    monkeypatch: pytest.MonkeyPatch, *states: dict[str, Any] | None, start: tuple[int, str] = (204, ""), name: str = "/box"
) -> list[str]:  # fmt: skip
    """An engine that shows these states one after the other, and answers the start so; what it was asked."""
    asked: list[str] = []
    looks: Iterator[dict[str, Any] | None] = iter(states)

    def exchange(_api: Api, method: str, url: str, _data: str | None, _timeout: float) -> tuple[int, str]:
        asked.append(f"{method} {url}")
        if method == "POST":
            return start
        state = next(looks)
        if state is None:
            return 404, '{"message": "No such container"}'
        return 200, json.dumps({"Id": ID, "Name": name, "State": state, "Config": {"Env": []}})

    monkeypatch.setattr(Api, "_exchange", exchange)
    return asked


def test_ours_that_holds_is_told_with_both_start_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, ENDED, RUNS)
    got = start_container.main(ASK)
    assert (got["started"], got["before"]) == (RUNS["StartedAt"], ENDED["StartedAt"])
    assert [r["argv"] for r in got["ran"]] == [["set"], ["mount"], ["go"]]
    assert asked.count(f"POST /containers/{ID}/start") == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "there is no container"),
        (RUNS, "it is running now"),
        (ENDED | {"Status": "paused"}, "it is paused now"),
        (ENDED | {"Status": "restarting"}, "it is restarting now"),
        (ENDED | {"Status": "dead"}, "it is dead now"),
        (ENDED | {"StartedAt": "2026-03-02T11:00:00Z"}, "it was started at"),
    ],
)
def test_refused_before_anything_is_asked_for(monkeypatch: pytest.MonkeyPatch, state: dict[str, Any] | None, words: str) -> None:
    asked = told(monkeypatch, state)
    got = start_container.main(ASK)
    assert got["code"] == "target-changed"
    assert words in got["refused"]
    assert not [x for x in asked if x.startswith("POST")]


def test_refused_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, ENDED, name="/other")
    assert "is now called other" in start_container.main(ASK)["refused"]
    assert not [x for x in asked if x.startswith("POST")]


@pytest.mark.parametrize(
    ("answer", "word", "words"),
    [
        ((304, ""), "refused", "somebody else started it in this very moment"),
        ((404, '{"message": "No such container"}'), "refused", "was removed in this very moment"),
        ((500, '{"message": "error gathering device information"}'), "failed", "error gathering device information"),
    ],
)
def test_a_start_that_is_not_ours(monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str], word: str, words: str) -> None:
    """Nothing is run inside. An engine that could not start it may have tried: that is no refusal."""
    told(monkeypatch, ENDED, RUNS, start=answer)
    got = start_container.main(ASK)
    assert words in got[word]
    assert "ran" not in got


@pytest.mark.parametrize(
    ("after", "words"), [(ENDED | {"ExitCode": 7}, "is exited with exit code 7 right after"), (None, "is gone right after")]
)
def test_one_that_does_not_stay_up_has_failed(monkeypatch: pytest.MonkeyPatch, after: dict[str, Any] | None, words: str) -> None:
    told(monkeypatch, ENDED, after)
    got = start_container.main(ASK)
    assert words in got["failed"]
    assert "ran" not in got


def test_an_engine_that_is_not_there_is_asked_for_nothing() -> None:
    assert start_container.main(ASK)["code"] == "cannot-check"
