"""Reads other nodes' newest SSH reports: many nodes that refuse one key are one incident."""

import json
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from runbooks.core.names import slug
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.report_store import reports_root

SLUG = "ssh-auth-failure"


@diagnostic("nodes with the same key")
def read_alike(context: Context, mark: str) -> tuple[str, ...]:
    """Nodes whose newest report is not older than the limit and says that the same key was refused."""
    if not mark:
        return ()
    oldest = context.now() - timedelta(seconds=context.limit("rollout_window_s", SLUG))
    found = []
    for node in context.fleet.nodes:
        path = reports_root(context.fleet.reports.folder) / slug(SLUG) / slug(node.name) / "latest.json"
        if node.name != context.target and _refused(path, mark, oldest):
            found.append(node.name)
    return tuple(sorted(found))


def _refused(path: Path, mark: str, oldest: datetime) -> bool:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        wire = report["evidence"]["wire"]["value"]
        at = datetime.fromisoformat(str(report["evidence"]["taken_at"]).replace("Z", "+00:00"))
        return at >= oldest and wire["auth"] == "refused" and mark in wire["offered"]
    return False
