"""Where the UI of a server stands is what that server says; each case is a server's real answer, or one that is not Prefect's."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.ui_pages import UiPage, ui_path, ui_url


class Said:
    """A server that answers `/ui-settings` below some paths."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                body = outer.answers.get(self.path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write((body or "").encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    monkeypatch.delenv("PREFECT_UI_URL", raising=False)
    made = Said()
    with temporary_settings({PREFECT_API_URL: f"{made.base}/api"}):
        yield made
    made.server.shutdown()


BOTH = {"v1_base_url": "/", "v2_base_url": "/v2"}
BELOW = {"v1_base_url": "/prefect", "v2_base_url": "/prefect/v2"}


@pytest.mark.parametrize(
    ("at", "answer", "reached_at", "path"),
    [
        ("/ui-settings", json.dumps(BOTH), "", "/v2"),
        ("/ui-settings", json.dumps({"v1_base_url": "/", "v2_base_url": None}), "", ""),
        ("/ui-settings", json.dumps({"api_url": "x", "flags": []}), "", ""),  # before there were two
        ("/prefect/ui-settings", json.dumps(BELOW), "/prefect", "/prefect/v2"),  # PREFECT_SERVER_UI_SERVE_BASE
        ("/ui-settings", json.dumps(BOTH), "/behind", "/behind/v2"),  # a proxy takes its own part away
        ("/ui-settings", json.dumps(BOTH), "/v2", "/v2"),  # somebody copied it from the browser
        ("/ui-settings", json.dumps({"v1_base_url": None, "v2_base_url": None}), "", "/v2"),  # its UI is elsewhere
        ("/ui-settings", "<html>", "", "/v2"),
        ("/ui-settings", json.dumps(BOTH | {"v2_base_url": "//evil.example/x"}), "", "/v2"),
        ("/nowhere", "", "", "/v2"),
    ],
)
def test_the_path_is_the_servers_own(said: Said, at: str, answer: str, reached_at: str, path: str) -> None:
    said.answers[at] = answer
    given = f"{said.base}{reached_at}" if reached_at else ""
    assert ui_url(UiPage.RUN, "r1", given) == f"{said.base}{path}/runs/flow-run/r1"
    assert ui_url(UiPage.HOME, given=given) == f"{said.base}{path}/dashboard"


def test_people_may_reach_it_under_another_name_and_it_is_asked_once(said: Said) -> None:
    said.answers["/ui-settings"] = json.dumps(BOTH | {"v2_base_url": "/new"})
    assert ui_url(UiPage.ARTIFACT, "a1", "https://ui.example/") == "https://ui.example/new/login?redirectTo=/artifacts/artifact/a1"
    assert ui_path(UiPage.ARTIFACT, "a1") == "/new/artifacts/artifact/a1"
    assert ui_path(UiPage.RUN, "r1") == "/new/runs/flow-run/r1"
    assert said.asked == ["/ui-settings"]


def test_where_there_is_only_the_first_ui_an_artifact_is_asked_for_directly(said: Said) -> None:
    said.answers["/ui-settings"] = json.dumps(BOTH | {"v2_base_url": None})
    assert ui_url(UiPage.ARTIFACT, "a1") == f"{said.base}/artifacts/artifact/a1"
