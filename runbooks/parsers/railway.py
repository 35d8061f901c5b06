"""Deployments of a service as Railway lists them, and which of them is in service. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.times import utc
from runbooks.parsers.fields import given

CAME_UP = ("SUCCESS", "CRASHED", "SLEEPING")  # source: docs.railway.com/reference/deployments; a failed one replaces nothing
ON_ITS_WAY = ("INITIALIZING", "QUEUED", "WAITING", "NEEDS_APPROVAL", "BUILDING", "DEPLOYING")
FAILED = "FAILED"
RESTART = "mutation restart($id: String!) { deploymentRestart(id: $id) }"
REDEPLOY = "mutation again($id: String!) { deploymentRedeploy(id: $id) { id } }"


class Deployment(Frozen):
    """One deployment. `created` is UTC; `commit` and `branch` are empty where it was not made from a repository."""

    id: str
    status: str
    created: datetime | None = None
    commit: str = ""
    branch: str = ""

    @property
    def words(self) -> str:
        """How a sentence names it."""
        of = f" of commit {self.commit[:8]}{f' on {self.branch}' if self.branch else ''}" if self.commit else ""
        return f"the deployment{of}" + (f" of {utc(self.created)}" if self.created else "")


def deployment_of(node: Mapping[str, Any]) -> Deployment:
    """Raises ValueError where id or status is missing or a field has another shape."""
    meta = node.get("meta")
    found = meta if isinstance(meta, Mapping) else {}
    at = node.get("createdAt")
    return Deployment(
        id=given(node, "id", str), status=given(node, "status", str),
        created=datetime.fromisoformat(at).astimezone(UTC) if isinstance(at, str) and at else None,
        commit=str(found.get("commitHash") or "")[:40], branch=str(found.get("branch") or "")[:100],
    )  # fmt: skip


def in_service(found: Sequence[Deployment], whole: bool) -> tuple[Deployment | None, tuple[Deployment, ...]]:
    """(the deployment in service, those made after it), of a list with the newest first. `whole`: the list was not cut.

    A deployment that failed, or is still on its way, replaces nothing: the one before it runs on. Where none ever came up, or all
    that did were removed, the newest stands for the service; None where a cut list cannot tell."""
    for i, one in enumerate(found):
        if one.status in CAME_UP:
            return one, tuple(found[:i])
    return (found[0], ()) if found and whole else (None, tuple(found))
