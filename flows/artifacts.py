"""Prefect artifacts that are replaced in place: one version each, however often they are written."""

import json
from collections.abc import Iterable
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey

from flows.store import ask
from flows.ui_pages import START, START_UNKNOWN, UiPage, ui_path, ui_url
from runbooks.core.show import Markdown, kept, markdown, md

ABOUT_START = md("what waits, what is wrong now, how to run something")
MOST = 200  # the most the server gives at once


def put_markdown(key: str, data: Markdown, description: Markdown) -> None:
    """Writes the Markdown artifact of that key, in place if it is there. The UI renders the description as well."""
    _put(key, "markdown", data, description)


def put_table(key: str, rows: list[dict[str, Any]], description: Markdown) -> None:
    """Writes the table artifact of that key, in place if it is there."""
    _put(key, "table", json.dumps(rows), description)


def _put(key: str, kind: str, data: str, description: str) -> None:

    def write(c: SyncPrefectClient) -> None:
        found = _latest(c, key)
        if found is None:
            c.create_artifact(ArtifactCreate(key=key, type=kind, data=data, description=description))
        else:
            c.update_artifact(found.latest_id, ArtifactUpdate(data=data, description=description))

    ask(write)


def get_table(key: str) -> list[dict[str, Any]]:
    """The rows of the table artifact of that key; none if there is none."""
    return _rows(ask(lambda c: _latest(c, key)))


def tables(prefix: str) -> list[list[dict[str, Any]]]:
    """The rows of the newest table artifact of each key that begins so, by key."""
    return [_rows(a) for a in _begun_with(prefix)]


def described(prefix: str) -> list[tuple[str, Markdown]]:
    """Key and description (made by us) of the newest artifact of each key that begins so, by key."""
    return [(a.key, kept(a.description or "")) for a in _begun_with(prefix)]


def _begun_with(prefix: str) -> list[Any]:
    like = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(like_=prefix))
    found = ask(lambda c: c.read_latest_artifacts(artifact_filter=like, limit=MOST))
    return sorted((a for a in found if a.key and a.key.startswith(prefix)), key=lambda a: str(a.key))


def _rows(artifact: Any) -> list[dict[str, Any]]:
    rows = artifact.data if artifact is not None else None
    if isinstance(rows, str):
        rows = json.loads(rows)
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []


def addresses(keys: Iterable[str], given: str = "") -> dict[str, str]:
    """Key → address of the page that shows the newest artifact of that key.

    Where there is none yet, or the server does not answer, the address of the page that lists the versions of the key.
    `given`: where people reach the UI, if that is not where the API is. "" for each key where no server is known.
    """
    return {key: ui_url(*place, given) for key, place in _places(keys).items()}


def paths(keys: Iterable[str]) -> dict[str, str]:
    """The same within the UI: for what is shown there, under whatever host name it was opened."""
    return {key: ui_path(*place) for key, place in _places(keys).items()}


def _places(keys: Iterable[str]) -> dict[str, tuple[UiPage, str]]:
    wanted = list(dict.fromkeys(keys))
    found = {key: ident for some in _some(wanted, MOST) for key, ident in _newest(some).items()}
    return {k: (UiPage.ARTIFACT, found[k]) if k in found else (UiPage.VERSIONS, k) for k in wanted}


def start_path() -> str:
    """The page to begin with, within the UI. It is made where it is not there yet, so that its address stays."""
    page, name = _places([START])[START]
    if page is UiPage.VERSIONS:
        put_markdown(START, markdown("Nothing was checked yet. `gpu-runbooks nightly` checks every node."), ABOUT_START)
        page, name = _places([START])[START]
    return ui_path(page, name) or START_UNKNOWN


def _some(keys: list[str], most: int) -> Iterable[list[str]]:
    return (keys[i : i + most] for i in range(0, len(keys), most))


def _newest(keys: list[str]) -> dict[str, str]:
    by_key = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=keys))
    try:
        found = ask(lambda c: c.read_latest_artifacts(artifact_filter=by_key, limit=MOST), patience_s=0.0)
    except Exception:  # a link to the versions is better than none
        return {}
    return {str(a.key): str(a.latest_id) for a in found}


def _latest(c: SyncPrefectClient, key: str) -> Any:
    by_key = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=[key]))
    found = c.read_latest_artifacts(artifact_filter=by_key, limit=1)
    return found[0] if found else None
