"""Gives runs to the zygote: so many at once, the others in a queue, a new zygote if it dies, nothing new while draining."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from deployments.gateway.settings import HMAC_ENV, PAGERDUTY_ENV, TOKEN_ENV
from tasks.this_machine import start_ticks

log = logging.getLogger("gateway.runner")
START_LIMIT_S = 150.0
FORK_LIMIT_S = 30.0  # a fork takes milliseconds: a warm process that has not answered for so long hangs
DOWN_LIMIT_S = 20.0  # without a warm process for so long: runs are for the workers
RESTART_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
LOOK_EVERY_S = 1.0
SENDERS = (TOKEN_ENV, HMAC_ENV, PAGERDUTY_ENV)


class Runner:
    """The gateway's side of the zygote. `ended(run, clean)` is called, in a thread, for each run whose process ended."""

    def __init__(self, at_once: int, ended: Callable[[str, bool], None], argv: list[str] | None = None) -> None:
        self._argv = argv or [sys.executable, "-m", "deployments.gateway.zygote"]
        self._at_once, self._ended = at_once, ended
        self._lock = threading.RLock()
        self._queue: deque[tuple[str, str]] = deque()
        self._running: dict[str, tuple[int, int]] = {}  # run -> (pid, start ticks); (0, 0) until it was forked
        self._asked: dict[str, float] = {}  # run -> when the zygote was told to fork it, until it says that it has
        self._gone: dict[str, float] = {}  # run -> since when its process is gone, until the zygote says so
        self._process: subprocess.Popen[bytes] | None = None
        self._coming: tuple[subprocess.Popen[bytes], float] | None = None  # a zygote that is not ready yet, since when
        self._down_since: float | None = None
        self._wait_s = RESTART_WAIT_S
        self._closing = self._draining = False
        self.restarts = -1  # the first start is none

    def start(self) -> None:
        """Starts the zygote and waits until it is warm. Raises RuntimeError if it does not come up."""
        process = self._spawn()
        deadline = time.monotonic() + START_LIMIT_S
        while self._process is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the warm process did not start; see the lines above")
            time.sleep(0.02)
        threading.Thread(target=self._supervise, name="zygote's health", daemon=True).start()

    @property
    def able(self) -> bool:
        """False while there has been no warm process for some time."""
        return self._down_since is None or time.monotonic() - self._down_since < DOWN_LIMIT_S

    def submit(self, run: str, slug: str) -> bool:
        """Takes a run, now or as soon as there is room. False while draining or unable: the run is for a worker then."""
        with self._lock:
            if self._draining or not self.able:
                return False
            self._queue.append((run, slug))
        self._pump()
        return True

    def counts(self) -> tuple[int, int]:
        """(queued, running)."""
        with self._lock:
            return len(self._queue), len(self._running)

    def drain(self) -> list[str]:
        """No new run from now on. Returns the queued ones, that nobody has begun."""
        with self._lock:
            self._draining = True
            left = [run for run, _ in self._queue]
            self._queue.clear()
        return left

    def idle(self) -> bool:
        """True if no run's process is left."""
        with self._lock:
            gone = [r for r, (pid, start) in self._running.items() if pid and start_ticks(pid) != start]
            waiting_for_zygote = self._process is not None and self._process.poll() is None
            return not self._running or (not waiting_for_zygote and len(gone) == len(self._running))

    def close(self) -> None:
        """Ends the zygote; runs that go on are not touched."""
        self._closing = True
        process = self._process
        if process and process.stdin:
            process.stdin.close()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        env = {k: v for k, v in os.environ.items() if k not in SENDERS}  # what a run starts need not know them
        process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=env)
        self._coming = (process, time.monotonic())
        threading.Thread(target=self._read, args=(process,), name="zygote", daemon=True).start()
        return process

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in process.stdout:
            self._heard(process, json.loads(line))
        process.wait()
        self._lost(process)

    def _heard(self, process: "subprocess.Popen[bytes]", said: dict[str, Any]) -> None:
        if "ready" in said:
            with self._lock:
                self._process, self._coming, self._down_since = process, None, None
                self._wait_s = RESTART_WAIT_S
                self.restarts += 1
        elif "forked" in said:
            with self._lock:
                self._asked.pop(said["forked"], None)
                if said["forked"] in self._running:
                    self._running[said["forked"]] = (said["pid"], said["start"])
        elif "ended" in said:
            self._end(said["ended"], said["status"] == 0)
        self._pump()

    def _end(self, run: str, clean: bool) -> None:
        with self._lock:
            self._running.pop(run, None)
            self._asked.pop(run, None)
        threading.Thread(target=self._ended, args=(run, clean), name="ended", daemon=True).start()

    def _pump(self) -> None:
        with self._lock:
            while self._queue and self._process and len(self._running) < self._at_once:
                run, slug = self._queue.popleft()
                self._running[run], self._asked[run] = (0, 0), time.monotonic()
                try:
                    stdin = self._process.stdin
                    assert stdin is not None  # noqa: S101 - PIPE was asked for
                    stdin.write((json.dumps({"run": run, "slug": slug}) + "\n").encode())
                    stdin.flush()
                except (OSError, ValueError):
                    self._running.pop(run)
                    self._asked.pop(run)
                    self._queue.appendleft((run, slug))
                    return

    def _lost(self, process: "subprocess.Popen[bytes]") -> None:
        """The zygote is gone. Its children may go on: each is watched until it ends; what was never forked waits again."""
        with self._lock:
            if self._closing:
                return
            if self._process is process:
                self._process, self._down_since = None, time.monotonic()
            self._coming = None
            orphans = dict(self._running)
        log.warning("the warm process ended (status %s); starting another", process.returncode)
        threading.Thread(target=self._watch, args=(orphans,), name="orphans", daemon=True).start()
        time.sleep(self._wait_s)
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)
        if not self._closing:
            self._spawn()

    def _supervise(self) -> None:
        """Ends a zygote that hangs (another one is started then); without one for some time, the queue is for the workers."""
        while not self._closing:
            time.sleep(LOOK_EVERY_S)
            with self._lock:
                hung = self._hung()
                given_up = [] if self.able else [run for run, _ in self._queue]
                if given_up:
                    self._queue.clear()
            if hung:
                log.warning("the warm process does not answer; ending it")
                hung.kill()
            for run in given_up:
                self._end(run, False)

    def _hung(self) -> "subprocess.Popen[bytes] | None":
        now = time.monotonic()
        ended = [run for run, (pid, start) in self._running.items() if pid and start_ticks(pid) != start]
        self._gone = {run: self._gone.get(run, now) for run in ended}  # it says so at once, unless it hangs
        if self._process and any(now - at > FORK_LIMIT_S for at in (*self._asked.values(), *self._gone.values())):
            return self._process
        return self._coming[0] if self._coming and now - self._coming[1] > START_LIMIT_S else None

    def _watch(self, orphans: dict[str, tuple[int, int]]) -> None:
        while orphans:
            for run, (pid, start) in list(orphans.items()):
                if not pid or start_ticks(pid) != start:
                    orphans.pop(run)
                    self._end(run, False)
            self._pump()
            time.sleep(0.2)
