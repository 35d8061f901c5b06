"""The server's clock as seen from here: bounded by each answer, counted on by the steady clock, renewed by asking."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from flows import clock, records, server_date, store
from flows.clock import NoServerTime, server_now
from tests.support.engine_rig import Rig

T = 1_800_000_000.0


def date(at: float) -> str:
    return formatdate(at, usegmt=True)


@pytest.fixture(autouse=True)
def _unlearnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_date, "APART", {})
    monkeypatch.setattr(clock, "APART", server_date.APART)


def learnt(*answers: tuple[float, float, float]) -> float:
    for said, asked, heard in answers:
        server_date.learn("s", date(said), asked, heard)
    return server_date.APART["s"].seconds


def test_the_latest_of_the_earliest_counts() -> None:
    """The server's second had just begun at one answer and nearly ended at another: the first is nearer the truth."""
    assert learnt((T, 99.9, 100.0), (T, 100.4, 100.5), (T + 1, 100.8, 100.9)) == pytest.approx(T + 1 - 100.9)


def test_an_answer_that_was_long_on_its_way_moves_nothing() -> None:
    first = learnt((T, 100.0, 100.01))
    assert learnt((T + 1, 101.0, 130.0)) == first


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_server_whose_clock_is_set_is_followed(step: int) -> None:
    learnt((T, 100.0, 100.01))
    assert learnt((T + 10 + step, 110.0, 110.01)) == pytest.approx(T - 100 + step, abs=server_date.COARSE_S)


def test_what_is_no_date_is_passed_over() -> None:
    server_date.learn("s", "yesterday", 1.0, 1.0)
    server_date.learn("s", "", 1.0, 1.0)
    assert not server_date.APART


class Other(BaseHTTPRequestHandler):
    """A server an hour ahead, or one that names no time."""

    ahead_s: ClassVar[float | None] = 3600.0
    asked: ClassVar[int] = 0

    def do_GET(self) -> None:
        Other.asked += 1
        self.send_response_only(200)
        if self.ahead_s is not None:
            self.send_header("Date", date(datetime.now(UTC).timestamp() + self.ahead_s))
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b'"3"')

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def other() -> Iterator[type[Other]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Other.asked, Other.ahead_s = 0, 3600.0
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
        yield Other
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_servers_clock_counts_not_ours(other: type[Other]) -> None:
    apart = server_now() - datetime.now(UTC) - timedelta(hours=1)
    assert abs(apart.total_seconds()) < server_date.COARSE_S
    for _ in range(50):
        server_now()
    assert other.asked == 1, "in between the steady clock counts"


def test_it_never_goes_back_and_is_renewed(other: type[Other], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [server_now()]
    monkeypatch.setattr(clock, "FRESH_S", 0.0)
    for _ in range(30):
        seen.append(server_now())
    assert other.asked == 31
    assert seen == sorted(seen)


def test_a_server_without_a_clock_is_said_to_be_one(other: type[Other]) -> None:
    other.ahead_s = None
    with pytest.raises(NoServerTime):
        server_now()


def test_a_real_server_tells_it_with_every_answer(rig: Rig) -> None:
    store.get_variable("any")
    assert len(server_date.APART) == 1, "heard with an ordinary answer"
    stored = records.create_record(records.BUDGET, {"k": 0, "target": "", "at": "", "act_run": ""},
        state=Completed(), key=uuid4().hex, name="time", tags=[], labels={})  # fmt: skip
    assert stored.created is not None
    assert abs((server_now() - stored.created).total_seconds()) < server_date.COARSE_S
