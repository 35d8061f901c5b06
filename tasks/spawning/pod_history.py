"""Reads from earlier reports of stuck-spawning how long pods of one image took from their start to their container."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from runbooks.core.names import slug
from runbooks.core.reading import Absent, Known, Source
from runbooks.parsers.runpod import Pod, Runtime
from runbooks.spawning.evidence import Usual
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.report_store import LATEST, reports_root

SLUG = "stuck-spawning"
MOST_REPORTS, MOST_PODS = 200, 30


@diagnostic("usual start time of {image}")
def read_usual(context: Context, image: str, but: str) -> Known[Usual] | Absent:
    """Of the newest reports; a pod counts once, and the pod that this run is about (`but`) never."""
    folder = reports_root(context.fleet.reports.folder) / slug(SLUG)
    source = Source(command=f"reports below {folder}: pod.started_at, uptime_s", host="local", taken_at=context.now())
    took: dict[str, float] = {}
    for at, pod in (x for path in _newest(folder) for x in _pods(path)):
        if pod.image == image and pod.id != but and (seconds := start_to_container(at, pod)) is not None:
            took.setdefault(pod.id, round(seconds, 1))
    if not image or not took:
        return Absent(proof="no earlier report saw a pod of this image come up", source=source)
    return Known[Usual](value=Usual(image=image, seconds=tuple(took.values())[:MOST_PODS]), source=source)


def start_to_container(at: datetime, pod: Pod) -> float | None:
    """Seconds from the pod's start to its container, by the container's uptime at that time; None where one is not given."""
    if pod.runtime is not Runtime.THERE or pod.uptime_s is None or pod.started_at is None:
        return None
    seconds = (at - pod.started_at).total_seconds() - pod.uptime_s
    return seconds if seconds >= 0 else None


def _newest(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("*/*.json") if p.name != LATEST and not p.name.startswith(".")]
    return sorted(found, key=lambda p: p.name, reverse=True)[:MOST_REPORTS]


def _pods(path: Path) -> Iterator[tuple[datetime, Pod]]:
    """(time of the look, pod) of the newest read in a report; nothing where it is damaged or of another form."""
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        evidence: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["evidence"]
        for one in (evidence, *evidence.get("each", ())):
            if one["pod"]["kind"] == "known" and (read := one["pod"]["value"][-1])["pod"]:
                yield datetime.fromisoformat(str(read["at"]).replace("Z", "+00:00")), Pod.model_validate(read["pod"])
