"""A thing at etcd's address that hangs, drips, cuts its answers short or talks nonsense: it is named, nothing is planned."""

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from runbooks.core.plan import Step
from runbooks.core.verdict import State
from tasks.context import ActionRefused
from tasks.rendezvous.act_restore import restore_run_keys
from tests.support.arguments import sample
from tests.support.etcd import Etcd
from tests.support.rendezvous import act, context_of, fast, look, place
from tests.tasks.rendezvous.test_etcd_acts import asked, dead_run

HEALTH, NODE = b'{"health":"true"}', b'{"action":"get","node":{"key":"/torch","dir":true,"modifiedIndex":3,"createdIndex":3}}'
SOAK = pytest.mark.soak


class Sick(BaseHTTPRequestHandler):
    """Healthy by its own words; what it does with keys is `mode`."""

    protocol_version = "HTTP/1.1"
    mode = ""

    def do_GET(self) -> None:
        """One answer."""
        if self.mode == "hangs" or (self.mode == "keys hang" and "/v2/keys" in self.path):
            time.sleep(8)
            self.close_connection = True
        elif "/v2/keys" not in self.path:
            self._say(HEALTH)
        else:
            self._keys()

    do_POST = do_GET

    def _keys(self) -> None:
        bodies = {
            "html": b"<html><body>504 Gateway Time-out</body></html>",
            "deep": b'{"node":' * 200_000,
            "types": b'{"node":{"key":"/torch/elastic/rendezvous","dir":true,"modifiedIndex":1,"nodes":["a",7]}}',
            "indexes": b'{"node":{"key":"/torch/elastic/rendezvous/job","value":5,"modifiedIndex":"x"}}',
            "list": b"[]",
            "bytes": bytes(range(256)) * 64,
        }
        if self.mode in bodies:
            self._say(bodies[self.mode])
        elif self.mode == "truncated":
            self._say(NODE[:40], len(NODE))
        elif self.mode == "redirects":
            self._say(b"", status=307, location="http://127.0.0.1:1/v2/keys/")
        elif self.mode == "huge":
            self._say(b'{"node":{"key":"/torch/elastic/rendezvous/job","modifiedIndex":1,"value":"' + b"QUFB" * (18 << 20) + b'"}}')
        else:
            self._drip()

    def _say(self, body: bytes, length: int = 0, status: int = 200, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        for _ in range(200):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.5)

    def log_message(self, *_: object) -> None:
        """Nothing on the test's output."""


class Server(socketserver.ThreadingTCPServer):
    """Ends without waiting for those that hang."""

    daemon_threads, block_on_close = True, False
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A reader that gave up is what is tested."""


@contextmanager
def sick(mode: str) -> Iterator[str]:
    """Its address."""
    with Server(("127.0.0.1", 0), type("Mode", (Sick,), {"mode": mode})) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


MODES = {
    "html": "not JSON",
    "deep": "not JSON",
    "types": "not a node of etcd",
    "indexes": "not a node of etcd",
    "list": "no node in",
    "bytes": "not JSON",
    "truncated": "not-http: IncompleteRead",
    "redirects": "not JSON",
}
SLOW = {"huge": "not JSON", "hangs": "timed-out", "keys hang": "timed-out", "drips": "timed-out"}


@pytest.mark.parametrize(
    ("mode", "said"), [*MODES.items(), *(pytest.param(*m, marks=SOAK) for m in SLOW.items())]
)
def test_what_is_no_etcd_is_named_in_bounded_time(tmp_path: Path, mode: str, said: str) -> None:
    """Never stale, never dead, never a traceback; and a person who waits is told within half a minute."""
    began = time.monotonic()
    with sick(mode) as url:
        _, d = look(fast(context_of(place(url), tmp_path, "t/job")))
    assert d.plans == ()
    assert d.state in (State.CANNOT_TELL, State.UNHEALTHY), d
    assert said in d.model_dump_json(), d
    assert time.monotonic() - began < 40


def test_a_saved_file_that_was_changed_writes_into_nobody_elses_run(etcd: Etcd, tmp_path: Path) -> None:
    """Its keys must have names of its own run."""
    dead_run(etcd, "job")
    context = asked(etcd, tmp_path, "t/job")
    act(look(context)[1].plans[0], context)
    (file,) = (tmp_path / "reports" / "rendezvous").glob("*.json")
    args = sample("restore-run-keys", rendezvous="t", endpoint=etcd.url, file=str(file), digest="", run="job", backend="etcd-v2")
    step = Step(kind="restore-run-keys", owner="e", args=args, commands=(), effect="")
    saved = json.loads(file.read_text())
    for foreign in ("/torch/elastic/rendezvous/other", "/torch/elastic/rendezvous/job/../other", "/x"):
        more = [*saved["keys"], {"key": foreign, "value": "x", "modified": 1}]
        file.write_text(json.dumps(saved | {"keys": more}))
        with pytest.raises(ActionRefused, match="not of run"):
            restore_run_keys(step, context)
    assert etcd.leaves() == {}
