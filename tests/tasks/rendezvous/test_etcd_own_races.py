"""Starting and defragmenting an etcd while somebody else starts it, or writes into it."""

import base64
import json
import os
import signal
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tasks.context import ActionRefused, Context
from tasks.rendezvous.act import defragment_etcd, start_etcd
from tasks.this_machine import start_ticks
from tasks.transport.base import TransportError
from tests.support.etcd import Etcd, real_etcd
from tests.support.rendezvous import act, context_of, fast, look, place, slugs
from tests.support.waiting import until
from tests.tasks.rendezvous.test_etcd_acts import _start, dead_run


def startable(etcd: Etcd, folder: Path) -> tuple[Context, Path]:
    """A context whose start command notes the pid of each etcd that it begins, and the file of these pids."""
    pids, script = folder / "pids", folder / "start.sh"
    client, peer = etcd.url, f"http://127.0.0.1:{etcd.peer}"
    script.write_text(
        f"cd {folder}; setsid etcd --name t --data-dir data --enable-v2=true --listen-client-urls {client} "
        f"--advertise-client-urls {client} --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} "
        f"--initial-cluster t={peer} >>log2 2>&1 </dev/null & echo $! >> {pids}"
    )
    start = {"node": "local", "command": ("sh", str(script)), "data_dir": str(folder / "data")}
    return context_of(place(etcd.url, start=start), folder / "reports", "t"), pids


@pytest.mark.parametrize("apart_s", [0.0, 0.05, 0.3])
def test_a_second_start_of_one_data_folder_ends_by_itself(tmp_path: Path, apart_s: float) -> None:
    """Somebody's own start, at any moment beside ours: one etcd lives, with what it held."""
    with real_etcd(tmp_path) as etcd:
        dead_run(etcd, "job")
        before = etcd.leaves()
        context, pids = startable(etcd, tmp_path)
        etcd.stop()
        assert slugs(look(fast(context))[1]) == ["etcd-down"]

        def start(after_s: float) -> str:
            time.sleep(after_s)
            try:
                return start_etcd(_start(context), context).said[0]
            except (ActionRefused, TransportError) as e:
                return str(e)

        with ThreadPoolExecutor(2) as both:
            said = list(both.map(start, (0.0, apart_s)))

        def living() -> list[int]:
            return [int(p) for p in pids.read_text().split() if start_ticks(int(p)) is not None]

        try:
            until(lambda: len(living()) == 1, 30, f"one etcd ({said})")
            assert etcd.leaves() == before
        finally:
            for pid in living():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Writer(threading.Thread):
    """Writes the same keys again and again by v3, and remembers what etcd said that it has."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.has, self.written, self.over = url, dict[str, int](), 0, threading.Event()

    def run(self) -> None:
        n = 0
        while not self.over.is_set():
            n += 1
            key = f"k{n % 7}"
            with suppress(OSError):  # full: it says no
                self.call("put", {"key": code(key), "value": code(str(n))})
                self.has[key], self.written = n, self.written + 1

    def call(self, what: str, body: dict[str, str]) -> dict[str, list[dict[str, str]]]:
        """One question."""
        data = json.dumps(body).encode()
        answer = urllib.request.urlopen(f"{self.url}/v3/kv/{what}", data=data, timeout=20).read()  # noqa: S310
        return dict(json.loads(answer))


def code(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_what_is_written_while_room_is_made_stays(tmp_path: Path) -> None:
    """Old revisions go; the newest one of each key, and of every rendezvous key, is what its writer was told."""
    with real_etcd(tmp_path, "--quota-backend-bytes=2000000") as etcd:
        dead_run(etcd, "job")
        before = etcd.leaves()
        writer = Writer(etcd.url)
        with suppress(OSError):
            for _ in range(60):
                writer.call("put", {"key": code("x"), "value": code("x" * 75_000)})
        context = fast(context_of(place(etcd.url), tmp_path / "reports", "t"))
        _, d = look(context)
        assert "etcd-full" in slugs(d)
        step = next(s for p in d.plans for s in p.steps if s.kind == "defragment-etcd")
        writer.start()
        assert any("switched off" in s for s in defragment_etcd(step, context).said)
        until(lambda: writer.written > 20, 30, "writing goes on")
        writer.over.set()
        writer.join(30)
        for key, n in writer.has.items():
            [found] = writer.call("range", {"key": code(key)})["kvs"]
            assert int(base64.b64decode(found["value"])) >= n
        assert etcd.leaves() == before


def test_a_start_that_was_judged_is_refused_once_it_answers(tmp_path: Path) -> None:
    """Somebody was quicker: right before the command it is asked once more."""
    with real_etcd(tmp_path) as etcd:
        context, pids = startable(etcd, tmp_path)
        etcd.stop()
        plan = look(fast(context))[1].plans[0]
        act(plan, context)
        try:
            with pytest.raises(ActionRefused, match="answers already"):
                act(plan, context)
            assert len(pids.read_text().split()) == 1
        finally:
            os.kill(int(pids.read_text()), signal.SIGKILL)
