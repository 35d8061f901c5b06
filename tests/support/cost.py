"""What a call costs this thread at best: what other threads of a long test process do, and its garbage, is not the call's."""

import time
from collections.abc import Callable


def cpu_seconds(call: Callable[[], object], enough: float, tries: int = 3, clock: Callable[[], float] = time.thread_time) -> float:
    """CPU seconds of the cheapest of that many calls in this thread; no further call after one that took less than `enough`.

    `clock`: time.process_time where the threads that the call starts count as well."""
    best = float("inf")
    for _ in range(tries):
        began = clock()
        call()
        best = min(best, clock() - began)
        if best < enough:
            break
    return best
