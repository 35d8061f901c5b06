"""Prefect artifacts that are replaced in place: one version each, however often they are written."""

import json
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey

from flows.store import ask
from runbooks.core.show import Markdown, kept

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
    found = ask(lambda c: _latest(c, key))
    rows = found.data if found is not None else None
    if isinstance(rows, str):
        rows = json.loads(rows)
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []


def described(prefix: str) -> list[tuple[str, Markdown]]:
    """Key and description (made by us) of the newest artifact of each key that begins so, by key."""
    like = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(like_=prefix))
    found = ask(lambda c: c.read_latest_artifacts(artifact_filter=like, limit=MOST))
    return sorted((a.key, kept(a.description or "")) for a in found if a.key and a.key.startswith(prefix))


def _latest(c: SyncPrefectClient, key: str) -> Any:
    by_key = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=[key]))
    found = c.read_latest_artifacts(artifact_filter=by_key, limit=1)
    return found[0] if found else None
