"""The engine's own health as Prometheus reads it: asked of the server at most every ten seconds, never waited for long."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillAsking

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flows.self_health import Health, HeldLock

FRESH_S, WAIT_S = 10.0, 3.0
NAMESPACE = "gpu_runbooks"


class SelfHealth(Collector):
    """Asks `read` in a thread of its own, and shows what was heard last; a server that does not answer is `server_up` 0."""

    def __init__(self, read: Callable[[], Health]) -> None:
        self._read, self._lock = read, threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="self-health")
        self._heard: tuple[float, Health] | None = None
        self._asked: Future[Health] | None = None
        self._up = False

    def describe(self) -> list[Metric]:
        """Nothing is asked while it is being registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics; without an answer only that there is none."""
        health = self._now()
        yield _one("server_up", "1 if the Prefect server answered the last question", float(self._up))
        if health is not None:
            yield from _families(health)

    def _now(self) -> Health | None:
        with self._lock:
            if self._heard is None or time.monotonic() - self._heard[0] > FRESH_S:
                self._ask()
            return self._heard[1] if self._heard and self._up else None

    def _ask(self) -> None:
        """One question at a time: one that gets no answer is not asked again beside itself."""
        if self._asked is None:
            self._asked = self._thread.submit(self._read)
        try:
            self._heard, self._up = (time.monotonic(), self._asked.result(WAIT_S)), True
        except StillAsking:
            self._up = False
            return
        except Exception:
            self._up = False
        self._asked = None


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"{NAMESPACE}_{name}", text)
    found.add_metric([], value)
    return found


def _oldest(locks: Iterable[HeldLock]) -> dict[tuple[str, str], float]:
    """Age of the oldest lock of each owner and holder: of two runs that wait for one owner to be usable again, one series."""
    found: dict[tuple[str, str], float] = {}
    for lock in locks:
        found[lock.owner, lock.holder] = max(lock.age_s, found.get((lock.owner, lock.holder), 0.0))
    return found


def _families(h: Health) -> Iterator[Metric]:
    """Ages in seconds. Label values are states of Prefect, and the locks of this moment: a series ends with its lock."""
    count = GaugeMetricFamily(f"{NAMESPACE}_open_runs", "Runs that have not ended, by state", labels=["state"])
    oldest = GaugeMetricFamily(f"{NAMESPACE}_oldest_open_run_seconds", "Time since the oldest run entered its state", labels=["state"])
    for runs in h.open_runs:
        count.add_metric([runs.state], runs.count)
        oldest.add_metric([runs.state], runs.oldest_s)
    yield count
    yield oldest
    yield _one("locks_held", "Targets that are locked by an action", len(h.locks))
    held = GaugeMetricFamily(f"{NAMESPACE}_lock_seconds", "Age of each lock, with its holder", labels=["owner", "holder"])
    for (owner, holder), age_s in _oldest(h.locks).items():
        held.add_metric([owner, holder], age_s)
    yield held
    yield _one("oldest_lock_seconds", "Age of the oldest lock", max((k.age_s for k in h.locks), default=0.0))
    yield _one("approvals_waiting", "Runs that wait for a person", len(h.waiting))
    yield _one("oldest_approval_seconds", "Age of the oldest question", max((w.age_s for w in h.waiting), default=0.0))
    yield _one("reapers", "Live reapers; one leads", h.reapers)
    if h.reaper_age_s is not None:
        yield _one("reaper_last_round_seconds", "Time since the last round of any reaper", h.reaper_age_s)
    yield _one("pool_paused", "1 while no worker accepts runs", float(bool(h.pool_paused)))
    yield _one("frozen", "1 while actions are frozen", float(h.frozen))
    yield _one("breakers_tripped", "Fleets whose breaker a person must reset", len(h.breakers))
