"""Credentials: the environment first, then a Prefect Secret block; without a server nothing is waited for."""

import time

import pytest

from tasks import credentials


@pytest.fixture(autouse=True)
def _forget() -> None:
    credentials._FOUND.clear()


def test_the_environment_comes_first_then_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(block: str) -> str:
        asked.append(block)
        if block != "runpod-api-key":
            raise ValueError("no such block")
        return "from-the-block"

    monkeypatch.setattr(credentials, "read_secret", read)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    monkeypatch.setenv("RUNPOD_API_KEY", "from-the-environment")
    assert credentials.credential("RUNPOD_API_KEY") == "from-the-environment"
    monkeypatch.setenv("RUNPOD_API_KEY", " ")
    assert [credentials.credential("RUNPOD_API_KEY") for _ in range(3)] == ["from-the-block"] * 3
    assert credentials.credential("DATABASE_URL") == ""
    assert asked == ["runpod-api-key", "database-url"]


def test_without_a_server_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.setattr(credentials, "_server_is_configured", lambda: False)
    began = time.monotonic()
    assert credentials.credential("NO_SUCH_KEY") == ""
    assert time.monotonic() - began < 5
