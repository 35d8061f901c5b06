"""Judges whether many targets that fail alike are one incident, for the engine, the gateway and the notifications."""

from collections.abc import Iterable
from datetime import datetime, timedelta


def many_alike(seen: Iterable[tuple[datetime, str]], now: datetime, window_s: float, at_least: int) -> tuple[str, ...]:
    """The targets that failed alike in the last `window_s` seconds, sorted; () where they are fewer than `at_least`.

    `seen`: when, and which target, of failures that are the same but for the target; one target may stand several times."""
    since = now - timedelta(seconds=window_s)
    targets = {target for at, target in seen if at >= since}
    return tuple(sorted(targets)) if len(targets) >= at_least else ()
