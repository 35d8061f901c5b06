"""A freeze on the server for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows import store
from flows.engine.guards import FREEZE


@contextmanager
def frozen(why: str = "a test") -> Iterator[None]:
    """Sets the freeze for this reason, and lifts it however the block ends."""
    store.set_variable(FREEZE, {"at": "now", "why": why})
    try:
        yield
    finally:
        store.delete_variable(FREEZE)
