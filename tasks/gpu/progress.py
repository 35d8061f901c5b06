"""Reads the signs of progress of a node's jobs: files that grow, SQLite rows, log growth. Two looks, compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runbooks.core.fleet import Job, ProgressKind
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.evidence import ProgressMark
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import redact, run_probe, source, unknown
from tasks.transport.base import TransportError

CAP = 200  # files per mark
Marks = Known[tuple[ProgressMark, ...]] | Absent | Unknown


@dataclass(frozen=True)
class ProgressFacts:
    """One look at every mark, in the order of `marks_of`."""

    found: tuple[dict[str, Any], ...]
    error: TransportError | None = None


def marks_of(jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Every configured sign of progress as plain data."""
    return [
        {"job": j.name, "kind": str(p.kind), "path": p.path or "", "table": p.table or ""}
        for j in jobs
        for p in j.progress
        if p.kind is not ProgressKind.NONE
    ]


@diagnostic("signs of progress · {context.target}")
def read_progress(context: Context, jobs: Sequence[Job]) -> ProgressFacts:
    """One look at the files, tables and logs of the jobs; nothing is written, no writer waits."""
    marks = marks_of(jobs)
    if not marks:
        return ProgressFacts(())
    try:
        got = run_probe(context.host, "progress", {"marks": marks, "cap": CAP}, timeout_s=30)
    except TransportError as e:
        return ProgressFacts((), e)
    return ProgressFacts(tuple(got["marks"]))


def compare_progress(
    context: Context, jobs: Sequence[Job], before: ProgressFacts, after: ProgressFacts, running: frozenset[str]
) -> Marks:
    """Both looks as marks. One that could not be read, or a running job's path without a file, makes all Unknown."""
    marks = marks_of(jobs)
    if not marks:
        return Absent(proof="no job of the fleet file that runs on this node has signs of progress configured")
    command = "; ".join(f"{'sqlite3 -readonly' if m['kind'] == 'sqlite' else 'ls -l'} {m['path']}" for m in marks)
    error = before.error or after.error
    if error is not None:
        return unknown(context, error, command)
    pairs = list(zip(marks, before.found, after.found, strict=True))
    at = source(
        context, command, "\n".join(f"{m['path']}: {b['value']} -> {a['value']} {a['unit']}" for m, b, a in pairs)
    )
    bad = [a["error"] or b["error"] for _, b, a in pairs if a["error"] or b["error"]]
    if bad:
        why = UnknownReason.DENIED if all(b.startswith("denied") for b in bad) else UnknownReason.FAILED
        return Unknown(reason=why, detail="; ".join(bad), source=at)
    empty = [m["path"] for m, b, a in pairs if not a["files"] and not b["files"] and m["job"] in running]
    if empty:
        detail = f"no file is at {', '.join(empty)} though the job runs: is the path right?"
        return Unknown(reason=UnknownReason.FAILED, detail=detail, source=at)
    there = [p for p in pairs if p[1]["files"] or p[2]["files"]]
    return Known[tuple[ProgressMark, ...]](value=tuple(_mark(*p) for p in there), source=at)


def job_logs(context: Context, jobs: Sequence[Job], look: ProgressFacts) -> Known[tuple[str, ...]] | Absent | Unknown:
    """The last lines of the logs that the fleet file names as signs of progress."""
    named = [m for m in marks_of(jobs) if m["kind"] == ProgressKind.LOG]
    if not named:
        return Absent(proof="no job of the fleet file that runs on this node names a log as its sign of progress")
    command = "; ".join(f"tail -n 40 {m['path']}" for m in named)
    if look.error is not None:
        return unknown(context, look.error, command)
    lines = [line for m in look.found for line in m.get("said", ())]
    clean = tuple(redact(context, "\n".join(lines)).splitlines())
    return Known[tuple[str, ...]](value=clean, source=source(context, command, "\n".join(clean)))


def _mark(mark: dict[str, str], before: dict[str, Any], after: dict[str, Any]) -> ProgressMark:
    same_unit = before["unit"] == after["unit"] or not before["files"]
    return ProgressMark(
        job=mark["job"],
        kind=mark["kind"],
        path=mark["path"],
        before=before["value"] if same_unit else after["value"],
        after=after["value"],
        unit=after["unit"],
        changed_s_ago=after["age_s"],
    )
