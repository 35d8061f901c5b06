"""Keeps what the watch saw of a container's last hour in a bounded file, and reads it for a report."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runbooks.container.before import Sample
from runbooks.core.names import slug
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from tasks.diagnostic import diagnostic
from tasks.installation import state_folder

LINES = 720  # an hour at five seconds; the file holds at most twice as many
CUT_AT = 2 * LINES


def record_path(node: str, container: str) -> Path:
    """The file of one container."""
    return state_folder() / "watch" / f"{slug(node)}--{slug(container)}.jsonl"


def append(node: str, container: str, samples: list[dict[str, Any]]) -> None:
    """Adds samples; the oldest go when the file is full. Other lines of the sample than this container's are left out."""
    if not samples:
        return
    path = record_path(node, container)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [json.dumps(_own(s, container), separators=(",", ":")) + "\n" for s in samples]
    with path.open("a", encoding="utf-8") as f:
        f.writelines(lines)
        size = f.tell()
    if size > CUT_AT * max(80, len(lines[-1])):
        _cut(path)


def _cut(path: Path) -> None:
    kept = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-LINES:]
    tmp = path.with_suffix(f".{os.getpid()}.tmp")
    tmp.write_text("".join(kept), encoding="utf-8")
    tmp.replace(path)


def _own(sample: dict[str, Any], container: str) -> dict[str, Any]:
    return {**{k: v for k, v in sample.items() if k != "containers"}, "own": (sample.get("containers") or {}).get(container)}


@diagnostic("the watch's record of {container} · {node}")
def read_before(node: str, container: str, now: datetime, window_s: float) -> Known[tuple[Sample, ...]] | Absent | Unknown:
    """The watch's samples of the last `window_s` seconds. Absent: nothing watches this container from here."""
    path = record_path(node, container)
    source = Source(command=f"tail {path}", host="", taken_at=now)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Absent(proof="no watch runs for it here (gpu-runbooks watch)", source=source)
    except OSError as e:
        return Unknown(reason=UnknownReason.DENIED, detail=str(e.strerror), source=source)
    found = [s for s in map(_sample, lines) if s and (now - s.at).total_seconds() <= window_s]
    if not found:
        return Absent(proof="the watch's record holds nothing of that time", source=source)
    return Known[tuple[Sample, ...]](value=tuple(found), source=source)


def _sample(line: str) -> Sample | None:
    """One line, or None for one that was cut off by a crash."""
    try:
        x = json.loads(line)
        own = x.get("own") or {}
        return Sample(
            at=datetime.fromtimestamp(float(x["at"]), UTC), memory_total_bytes=x["mem_total"], load=x["load"],
            memory_available_bytes=x["mem_available"], disk_free_bytes=x.get("disk_free") or {},
            own_memory_bytes=own.get("mem"), own_limit_bytes=own.get("limit"), own_cpu_s=own.get("cpu_s"),
        )  # fmt: skip
    except ODD_ANSWER:
        return None
