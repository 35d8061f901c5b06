"""The Prefect server's clock as seen from here: the one by which machines whose own clocks differ count together.

Budget, cooldown, attempts, the life of an approval and deadlines of steps are counted by it: see `flows.server_date`.
"""

from datetime import UTC, datetime, timedelta

from flows.client import kept_client, origin
from flows.server_date import APART, steady
from flows.store import ask, quick

FRESH_S = 60.0  # what was learnt longer ago than this is learnt again
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NoServerTime(Exception):
    """The server does not say what time it is."""


def server_now() -> datetime:
    """The server's time, within its answers' travelling time plus a second. Raises what the API raises, or NoServerTime."""
    with quick(), kept_client() as c:
        server = origin(c.api_url)
    if server not in APART or steady() - APART[server].heard_at > FRESH_S:
        ask(lambda c: c.api_version())
    if server not in APART:
        raise NoServerTime(f"{server} answers without a Date header, so no time limit can be counted")
    return _EPOCH + timedelta(seconds=steady() + APART[server].seconds)
