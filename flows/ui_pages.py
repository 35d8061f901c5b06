"""Addresses of pages in Prefect's UI. No other place writes such a path (a test holds it).

A server may have two UIs and says where each one is (`/ui-settings`, without log-in). The second asks a new browser to
log in and then shows the page that was wanted; the first one ends on *Page not found* [seen on 3.9.1]. An artifact is reached
by the log-in page itself, which goes on at once where one is logged in: asked for directly, the second UI repeats its `?tab=`
behind the log-in and shows an error instead [seen on 3.9.1].
"""

import os
import re
import threading
import time
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import PREFECT_API_URL

from flows.store import ask

START = "gpu-runbooks"  # key of the page to begin with: what waits, what is wrong now, how to run something
KEPT_S = 60.0  # the server may be replaced by a newer one while this process stays
ANSWER_S = 2.0
UNSAID = "/v2"  # where a server says nothing: a proxy lets only the API through
START_UNKNOWN = f"{UNSAID}/artifacts/key/{START}"  # where it is found on a server that nobody asked
_BASE = re.compile(r"(/[\w.~-]+)*/?")
_KNOWN: dict[tuple[str, str], tuple[float, "_Ui"]] = {}
_LOCK = threading.Lock()


class UiPage(StrEnum):
    """What has a page of its own."""

    HOME = "dashboard"
    RUN = "runs/flow-run"  # by id
    ARTIFACT = "artifacts/artifact"  # by id: shows what is in it (flows/artifacts.py finds the newest of a key)
    VERSIONS = "artifacts/key"  # by key: lists the versions and shows none of them
    DEPLOYMENT = "deployments/deployment"  # by id


class _Ui(NamedTuple):
    """The UI that the server in use has."""

    base: str  # path without a slash at its end
    second: bool


def ui_url(page: UiPage, name: str = "", given: str = "") -> str:
    """The page's address, "" where no server is known. `given`: where people reach the UI, if that is not where the API is."""
    address = _address(given)
    if not address:
        return ""
    parts = urlsplit(address)
    ui, path = _ui(parts.path.removesuffix(UNSAID)), _path(page, name)
    if ui.second and page is UiPage.ARTIFACT:
        path = f"/login?redirectTo={path}"
    return f"{parts.scheme}://{parts.netloc}{ui.base}{path}"


def ui_path(page: UiPage, name: str) -> str:
    """The same within the UI: for what is shown there to who is logged in, under whatever host name it was opened."""
    address = _address()
    return _ui(urlsplit(address).path.removesuffix(UNSAID)).base + _path(page, name) if address else ""


def _path(page: UiPage, name: str) -> str:
    return "/".join(["", page.value, *([name] if name else [])])


def report_links(run_id: str) -> dict[str, str]:
    """The links at the end of a report."""
    page = ui_url(UiPage.RUN, run_id)
    return {"run in Prefect": page} if page else {}


def _address(given: str = "") -> str:
    return (given or os.environ.get("PREFECT_UI_URL") or _api()).rstrip("/")


def _api() -> str:
    return (PREFECT_API_URL.value() or "").rstrip("/").removesuffix("/api")


def _ui(below: str) -> _Ui:
    """`below`: where a proxy or server put it."""
    key = (_api(), below)
    with _LOCK:
        at, known = _KNOWN.get(key, (0.0, _Ui("", False)))
        if key not in _KNOWN or time.monotonic() - at > KEPT_S:
            known = _found(*key)
            _KNOWN[key] = (time.monotonic(), known)
    return known


def _found(api: str, below: str) -> _Ui:
    parts = urlsplit(api)
    for place in dict.fromkeys((api, f"{parts.scheme}://{parts.netloc}{below}")):
        try:
            found = ask(partial(_settings, place), patience_s=0.0)
        except Exception:  # noqa: S112 - not there, or not Prefect's: the next place may be
            continue
        if "v2_base_url" not in found:
            return _Ui(below, False)  # a server from before the second UI
        base = found["v2_base_url"] or found.get("v1_base_url")
        if isinstance(base, str) and _BASE.fullmatch(base):
            base = base.rstrip("/")
            return _Ui(base if base.startswith(below) else below + base, bool(found["v2_base_url"]))
    return _Ui(below + UNSAID, True)


def _settings(place: str, c: SyncPrefectClient) -> dict[str, Any]:
    found = c.request("GET", f"{place}/ui-settings", timeout=ANSWER_S).json()  # type: ignore[arg-type]  # not a route of the API
    return found if isinstance(found, dict) else {}
