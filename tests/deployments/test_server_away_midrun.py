"""A real server that is gone for good while a run is at work, maybe with another one in its place: it is waited for once, and the
verdict is kept and named."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deployments.errors import NO_SERVER
from flows.store import PATIENCE_S
from tests.support.cli import CLI
from tests.support.waiting import until

Place = Callable[[int], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = str(tmp_path_factory.mktemp("home"))
    found = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {"GPU_RUNBOOKS_HOME": home}
    yield found
    subprocess.run([*CLI, "down", "--now"], env=found, check=False, capture_output=True)


@pytest.fixture
def up(env: dict[str, str]) -> dict[str, str]:
    """Its server is up."""
    subprocess.run([*CLI, "up"], env=env, check=True, capture_output=True)
    return env


def taken(own: socket.socket, port: int) -> bool:
    """Holds the port without listening: what connects is refused, and the server of another test does not get it."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with suppress(OSError):
        own.bind(("127.0.0.1", port))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # with it, who sets it as well could bind the port, too
        return True
    return False


@contextmanager
def nobody(port: int) -> Iterator[None]:
    """From there on nothing answers."""
    with closing(socket.socket()) as own:
        until(lambda: taken(own, port), 60, "the end of its server")
        yield


class Stranger(BaseHTTPRequestHandler):
    """A Prefect server with another log-in, as far as we get to see it."""

    def do_GET(self) -> None:
        said = b'{"exception_message":"Unauthorized"}'
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_PATCH = do_DELETE = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def a_stranger(port: int) -> Iterator[None]:
    """From there on another server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            other = ThreadingHTTPServer(("127.0.0.1", port), Stranger)
            break
        except OSError:
            assert time.monotonic() < deadline, "the dead server's port is not free"
            time.sleep(0.05)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        other.shutdown()
        other.server_close()


@pytest.mark.parametrize(
    ("command", "at_work", "then"),
    [
        (["run", "host-limits", "local"], "read local", nobody),
        (["nightly"], "nightly over 1 node", nobody),
        (["run", "host-limits", "local"], "read local", a_stranger),
        (["nightly"], "nightly over 1 node", a_stranger),
    ],
    ids=["a run", "the nightly", "a run and a stranger", "the nightly and a stranger"],
)
def test_the_report_is_kept_and_named(up: dict[str, str], command: list[str], at_work: str, then: Place) -> None:
    env = up
    state = json.loads((Path(env["GPU_RUNBOOKS_HOME"]) / "server.json").read_text())
    (server,) = [p["pid"] for p in state["processes"] if p["name"] == "server"]
    run = subprocess.Popen([*CLI, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.stdout is not None
    lines, killed = [], 0.0
    with ExitStack() as place:
        for line in run.stdout:
            lines.append(line)
            if not killed and at_work in line:
                os.kill(server, signal.SIGKILL)
                killed = time.monotonic()
                place.enter_context(then(state["port"]))
        code, took = run.wait(), time.monotonic() - killed
    said = "".join(lines)
    assert killed, said
    assert code == NO_SERVER, said
    assert took < 3 * PATIENCE_S, f"{took:.0f} s: more than one patience\n{said}"
    assert "Traceback" not in said
    last = next(x for x in lines if "gpu-runbooks: the Prefect server at" in x)
    page = Path(re.search(r"its report: (\S+\.md)", last)[1])  # type: ignore[index]
    report = json.loads(page.with_suffix(".json").read_text())
    outcomes = [r["outcome"] for r in report.get("results", [report])]
    assert "the run itself failed" not in page.read_text(), "it was read and judged: only nobody could be told"
    assert outcomes
    assert all(o in ("healthy", "sick", "cannot-tell", "not-applicable") for o in outcomes)
