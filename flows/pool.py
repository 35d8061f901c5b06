"""The work pool that all workers share: whether it takes new runs, and whether a worker is there for it."""

from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus

from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.objects import Worker
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from flows import store

BEAT_S = 30  # of a worker that does not say how often it reports
MISSED = 3  # beats: after them a worker is gone, for the server as for us


def pool_is_paused(name: str) -> bool | None:
    """True while no worker takes runs from the pool; None: there is no such pool."""
    try:
        return bool(store.ask(lambda c: c.read_work_pool(name)).is_paused)
    except ObjectNotFound:
        return None


def live_workers(name: str, now: datetime) -> int | None:
    """How many workers of the pool have reported lately, by the server's clock; None: there is no such pool."""
    try:
        return sum(_lives(w, now) for w in store.ask(lambda c: c.read_workers_for_work_pool(name)))
    except PrefectHTTPStatusError as e:  # the client has no other word for it here
        if e.response.status_code != HTTPStatus.NOT_FOUND:
            raise
        return None


def _lives(worker: Worker, now: datetime) -> bool:
    limit = timedelta(seconds=MISSED * (worker.heartbeat_interval_seconds or BEAT_S))
    return worker.last_heartbeat_time is not None and now - worker.last_heartbeat_time < limit


def pause_pool(name: str, paused: bool) -> None:
    """Stops (or lets) workers take new runs from the pool."""
    with suppress(ObjectNotFound):
        store.ask(lambda c: c.update_work_pool(name, WorkPoolUpdate(is_paused=paused)))
