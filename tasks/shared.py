"""What a sweep reads once and hands to everybody in it who needs it. A single run has none of this: it looks again before it acts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from tasks.transport.open import HostPool

T = TypeVar("T")


@dataclass
class _Answer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    at: datetime | None = None  # when its reading began
    value: Any = None


class Shared:
    """One sweep's answers by name. Who needs what another is just reading waits for it; nobody holds two at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}
        self._pools: list[HostPool] = []
        self.broken_off = False

    @contextmanager
    def hosts(self) -> "Iterator[HostPool]":
        """Connections of one part of the sweep: closed at its end, or as soon as the sweep is broken off."""
        from tasks.transport.open import HostPool  # paramiko takes half a second of every command's --help

        with HostPool() as pool:
            with self._lock:
                self._pools.append(pool)
            if self.broken_off:
                pool.close_all()
            try:
                yield pool
            finally:
                with self._lock:
                    self._pools.remove(pool)

    @contextmanager
    def ended_with_us(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM reach the main thread alone. What the others are reading then ends at once, and nothing more is read."""
        try:
            yield
        except BaseException:
            self.broken_off = True
            with self._lock:
                pools = list(self._pools)
            for pool in pools:
                pool.close_all()
            raise

    def get(self, name: str, now: Callable[[], datetime], age_s: float, read: Callable[[], T], will_do: Callable[[T], bool]) -> T:
        """The answer of that name, if its reading began at most `age_s` ago and it will do; else `read` anew."""
        with self._lock:
            answer = self._answers.setdefault(name, _Answer())
        with answer.lock:
            old = answer.at is None or not timedelta(0) <= now() - answer.at <= timedelta(seconds=age_s)
            if old or not will_do(answer.value):
                answer.at, answer.value = now(), read()
            return cast(T, answer.value)

    def oldest(self, began: datetime) -> datetime:
        """When the earliest of its answers was read, or `began` where all are later: by whose clock `now` was given to `get`."""
        with self._lock:
            return min([began, *(a.at for a in self._answers.values() if a.at)])
