"""What a call costs this thread at best: what other threads of a long test process do, and its garbage, is not the call's."""

import time
from collections.abc import Callable


def cpu_seconds(call: Callable[[], object], enough: float, tries: int = 3) -> float:
    """CPU seconds of the cheapest of that many calls in this thread; no further call after one that took less than `enough`."""
    best = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        call()
        best = min(best, time.thread_time() - began)
        if best < enough:
            break
    return best
