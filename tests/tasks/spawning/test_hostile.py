"""Rows, pods and answers that somebody else wrote: nothing of them becomes a path, a command or a false cause."""

import http.server
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.verdict import State
from runbooks.core.worker_ids import in_sql, is_plain
from tests.tasks.spawning.conftest import POD, WORKER, World

EVIL = ("../../etc/shadow", "a'; DROP TABLE workers; --", "$(reboot)", "x\n# Approved", "<img src=x>", "a b", "-rf", "")


def test_a_worker_id_is_never_part_of_a_path_or_a_command(world: World) -> None:
    worker = EVIL[1]
    assert [w for w in EVIL if is_plain(w)] == []
    world.row(id=worker)
    world.pod()
    evidence, d = world.look(world.context(f"worker/{worker}"))
    assert isinstance(evidence.inside, Unknown)
    assert evidence.inside.reason is UnknownReason.UNPARSABLE
    steps = [s for p in d.plans for s in p.steps]
    assert not any(s.kind.startswith("start-worker") for s in steps)
    for line in d.by_hand:
        assert worker not in line.replace(in_sql(worker), "")
        assert "\n" not in line


def served(answer: Callable[[Any], None]) -> http.server.ThreadingHTTPServer:
    """A provider that answers everything in its own way."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Silent."""

        def do_GET(self) -> None:
            answer(self)

        do_POST = do_DELETE = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def says(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Callable[[Any], None]:
    def answer(h: Any) -> None:
        h.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | headers).items():
            h.send_header(name.replace("_", "-"), value)
        h.end_headers()
        h.wfile.write(body)

    return answer


def drops(h: Any) -> None:
    """An answer that comes a byte at a time, each within the time-out, and never ends."""
    h.send_response(200)
    h.end_headers()
    try:
        while True:
            h.wfile.write(b" ")
            h.wfile.flush()
            time.sleep(0.05)
    except OSError:
        return


ANSWERS = {
    "html": says(200, b"<html><body>Log in to continue</body></html>", "text/html"),
    "redirect": says(302, b"", Location="http://127.0.0.1:1/login"),
    "rate limit": says(429, b'{"error":"slow down"}', Retry_After="3600"),
    "another pod": says(
        200, b'{"id":"theirs1","name":"gpu-x","desiredStatus":"EXITED","lastStatusChange":"Exited by user"}'
    ),
    "a list": says(200, b"[1, 2]"),
    "null": says(200, b"null"),
    "half": says(200, b'{"id": "podaaaa1", "name'),
    "drops": drops,
    "not text": says(200, bytes(range(128, 256))),
}


OFTEN = ("html", "rate limit", "another pod", "drops")


@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.soak) for n in ANSWERS])
def test_an_answer_that_is_none_is_cannot_tell(world: World, name: str) -> None:
    """No cause is made of it, nothing is offered, and it is over at once."""
    world.row()
    server = served(ANSWERS[name])
    url = f"http://127.0.0.1:{server.server_address[1]}"
    urls = {
        "rest_url": f"{url}/v1",
        "rest2_url": f"{url}/v2",
        "graphql_url": f"{url}/graphql",
        "timeout_s": 0.2 if name == "drops" else 2,
    }
    world.fields["runpod"] = urls
    try:
        evidence, d = world.look()
    finally:
        server.shutdown()
        server.server_close()
    assert isinstance(evidence.pod, Unknown), evidence.pod
    assert d.state is State.CANNOT_TELL, d.headline
    assert not d.plans
    assert any(u.startswith("pod:") for u in d.unknowns)


def test_names_of_pods_are_shown_as_text_only(world: World) -> None:
    world.row()
    world.pod(name="gpu-\x1b[31m\n# APPROVED\n<script>alert(1)</script>", gpus=0)
    _, d = world.look()
    steps = [s for p in d.plans for s in p.steps]
    assert all("\n" not in c and "script" not in c for s in steps for c in s.commands)
    assert POD in d.headline or WORKER in d.headline


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_clock_that_is_wrong_ends_no_pod(world: World, ahead: int) -> None:
    """The engine's clock an hour off: a worker that reports is neither called dead nor ended."""
    import dataclasses

    world.row(status="active", beat_s=5)
    world.pod()
    world.log.parent.mkdir(exist_ok=True)
    context = world.context()
    now = context.now
    context = dataclasses.replace(context, now=lambda: now() + timedelta(seconds=ahead))
    _, d = world.look(context)
    kinds = [s.kind for p in d.plans for s in p.steps]
    assert not any(k in ("terminate-pod", "stop-pod", "mark-worker-row") for k in kinds), d.headline
