"""The work pool that all workers share: it takes new runs, or it is paused."""

from contextlib import suppress

from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.exceptions import ObjectNotFound

from flows import store


def pool_is_paused(name: str) -> bool | None:
    """True while no worker takes runs from the pool; None: there is no such pool."""
    try:
        return bool(store.ask(lambda c: c.read_work_pool(name)).is_paused)
    except ObjectNotFound:
        return None


def pause_pool(name: str, paused: bool) -> None:
    """Stops (or lets) workers take new runs from the pool."""
    with suppress(ObjectNotFound):
        store.ask(lambda c: c.update_work_pool(name, WorkPoolUpdate(is_paused=paused)))
