"""A server that is gone is waited for by each question of a run at work, and once by all that a run's end asks."""

import time
from typing import Any

import pytest
from httpx import ConnectError
from prefect.exceptions import Abort
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import store
from flows.engine import stopping
from flows.patience import last_words, one_run

PATIENCE_S = 1.0  # a busy machine takes a good part of a second for a question that does not wait


def refused(_client: object) -> Any:
    raise ConnectError("refused")


def took(question: Any, **more: float) -> float:
    began = time.monotonic()
    with pytest.raises(ConnectError):
        store.ask(question, **more)
    return time.monotonic() - began


@pytest.fixture(autouse=True)
def _somewhere() -> Any:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        yield


def test_at_work_each_question_waits() -> None:
    with one_run():
        assert [took(refused, patience_s=PATIENCE_S) >= PATIENCE_S for _ in range(3)] == [True] * 3


def test_at_its_end_a_run_waits_once() -> None:
    with one_run():
        last_words()
        last_words()  # the second report of the same end
        assert took(refused, patience_s=PATIENCE_S) >= PATIENCE_S
        assert [took(refused, patience_s=PATIENCE_S) < PATIENCE_S / 2 for _ in range(3)] == [True] * 3
    with one_run():
        assert took(refused, patience_s=PATIENCE_S) >= PATIENCE_S, "the next run of this process has its own"


def test_an_impatient_question_takes_no_patience_from_the_next() -> None:
    with one_run():
        last_words()
        assert took(refused, patience_s=0.0) < PATIENCE_S / 2
        assert took(refused, patience_s=PATIENCE_S) >= PATIENCE_S / 2


def test_a_server_that_came_back_is_waited_for_again() -> None:
    with one_run():
        last_words()
        assert took(refused, patience_s=PATIENCE_S) >= PATIENCE_S
        assert store.ask(lambda _: "here") == "here"
        assert took(refused, patience_s=PATIENCE_S) >= PATIENCE_S


def test_a_run_that_cannot_tell_how_it_ended_ends_without_asking_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "read_run", refused)
    with pytest.raises(Abort, match="server is gone"):
        stopping.state_on_server("6ddb7a6a-918c-46ce-bf87-61c49843ef98")
