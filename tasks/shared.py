"""What a sweep reads once and hands to everybody in it who needs it. A single run has none of this: it looks again before it acts."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

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

    def get(self, name: str, now: Callable[[], datetime], age_s: float, read: Callable[[], T], will_do: Callable[[T], bool]) -> T:
        """The answer of that name, if its reading began at most `age_s` ago and it will do; else `read` anew."""
        with self._lock:
            answer = self._answers.setdefault(name, _Answer())
        with answer.lock:
            old = answer.at is None or not timedelta(0) <= now() - answer.at <= timedelta(seconds=age_s)
            if old or not will_do(answer.value):
                answer.at, answer.value = now(), read()
            return cast(T, answer.value)
