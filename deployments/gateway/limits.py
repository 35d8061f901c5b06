"""Limits of a request: how many a second, how large."""

import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import Request

MOST_SENDERS = 10_000


class TooLarge(Exception):
    """The body is larger than allowed. It was not read to its end."""


class Bucket:
    """So many a second, and a burst of so many."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, float(burst), clock
        self._level, self._at = float(burst), clock()

    def take(self) -> float:
        """0.0 if one more may come, else after how many seconds it may."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate

    @property
    def empty(self) -> bool:
        """True if the next one may not come now. Takes nothing."""
        return self._level + (self._clock() - self._at) * self._rate < 1


class Buckets:
    """One bucket per sender; the longest unseen ones are forgotten."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate, self._burst = per_second, burst
        self._of: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, sender: str) -> float:
        """As `Bucket.take`, for this sender."""
        bucket = self._of.pop(sender, None) or Bucket(self._rate, self._burst)
        self._of[sender] = bucket
        if len(self._of) > MOST_SENDERS:
            self._of.popitem(last=False)
        return bucket.take()

    def empty(self, sender: str) -> bool:
        """True if the next one of this sender may not come now."""
        bucket = self._of.get(sender)
        return bucket is not None and bucket.empty


async def read_body(request: Request, largest: int) -> bytes:
    """The body, up to `largest` bytes. Raises TooLarge as soon as there is one more."""
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said[:20]) > largest:
        raise TooLarge
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise TooLarge
        parts.append(part)
    return b"".join(parts)
