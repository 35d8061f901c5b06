"""The connection to the Prefect API: kept open, and settings changed without building all of them anew.

Prefect makes a client and a whole settings tree for each question: 80 ms of CPU. Both are kept here per process.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from httpx import URL, Request, Response, TransportError
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, Settings

from flows.server_date import learn, steady

BUSY = (408, 429, 500, 502, 503)
"""Answers after which the same is asked again for a while; 500 is what Prefect says while its database is away."""
STRANGE = (401, 403)
MOST_KEPT = 32
_SETTINGS: dict[tuple[int, str], tuple[Settings, Settings]] = {}
_CLIENTS: dict[tuple[object, ...], SyncPrefectClient] = {}


class NotOursError(TransportError):
    """Another server answers at the address of ours, or one with another log-in. For a run that is at work its own is gone."""

    def __init__(self, status: int) -> None:
        super().__init__(f"another server is there: it refuses the log-in ({status})")
        self.status = status


def kept_settings(updates: Mapping[Any, Any]) -> AbstractContextManager[object]:
    """The settings in force with these changes, for the length of a `with`; built once for each settings in force."""
    context = get_settings_context()
    name = (id(context.settings), repr(sorted((str(k), repr(v)) for k, v in updates.items())))
    if name not in _SETTINGS:
        if len(_SETTINGS) >= MOST_KEPT:
            _SETTINGS.clear()
        _SETTINGS[name] = (context.settings, context.settings.copy_with_update(updates))  # the first keeps its id taken
    return SettingsContext(profile=context.profile, settings=_SETTINGS[name][1])


def _transport() -> dict[str, Any]:
    """What a client gets where the API is on plain HTTP: no certificates, that Prefect reads for 20 ms for each client."""
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)} if (PREFECT_API_URL.value() or "").startswith("http://") else {}


@contextmanager
def kept_client() -> Iterator[SyncPrefectClient]:
    """A client that this process keeps open for the server in force. Raises HTTPStatusError at once when it is busy."""
    where = (os.getpid(), PREFECT_API_URL.value(), PREFECT_API_AUTH_STRING.value())
    if where not in _CLIENTS:
        _CLIENTS.clear()  # of another server, or of the process that forked this one: its sockets are not ours
        hooks = {"request": [_asked], "response": [_heard, _busy_at_once]}
        _CLIENTS[where] = get_client({"event_hooks": hooks} | _transport(), sync_client=True).__enter__()
    yield _CLIENTS[where]


def _asked(request: Request) -> None:
    request.extensions["asked_at"] = steady()


def origin(url: URL) -> str:
    """Which server that is."""
    return f"{url.scheme}://{url.netloc.decode()}"


def _heard(response: Response) -> None:
    """Every answer tells the server's time."""
    asked_at = response.request.extensions.get("asked_at")
    if asked_at is not None:
        learn(origin(response.request.url), response.headers.get("date", ""), asked_at, steady())


def _busy_at_once(response: Response) -> None:
    """Prefect's client sleeps for two seconds after these, even where no retry is left."""
    if response.status_code in BUSY:
        response.raise_for_status()
