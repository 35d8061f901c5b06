"""Writes, finds and prunes report files: <folder>/<runbook>/<target>/<UTC time>-<id>.{json,md}, latest.json."""

import contextlib
import errno
import json
import os
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.names import slug
from runbooks.core.nightly import NightlyReport
from runbooks.core.outcome import Outcome
from runbooks.core.report import Report
from tasks.installation import lasting

LATEST = "latest.json"
TMP_PREFIX = ".tmp-"
LOOK_BACK = 20  # newest reports among which the last sweep's is looked for
ANSWERS = (Outcome.HEALTHY, Outcome.UNHEALTHY)
TRIED = 1 << 16  # bytes, of a small report
TMP_AGE_S = 3600.0  # a temporary file this old was left by a killed process


class SavedReport(Frozen):
    """Where the report is. `problems` say what could not be written; the caller then prints the report instead."""

    record: Path | None = None  # the JSON
    markdown: Path | None = None
    problems: tuple[str, ...] = ()


def reports_root(folder: str) -> Path:
    """The reports folder; a relative one lies in $GPU_RUNBOOKS_REPORTS or the state folder, for everybody alike."""
    given = os.environ.get("GPU_RUNBOOKS_REPORTS")
    return lasting(folder, lasting(given) if given else None)


def why_unusable(folder: Path | str) -> str:
    """Why no report could be written into that folder, and what to do; "" if one could. The folder is made."""
    place = lasting(folder)
    tried = place / f"{TMP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            tried.write_bytes(bytes(TRIED))
        finally:
            tried.unlink(missing_ok=True)
    except OSError as e:
        return f"{place}: {_plain(e)}"
    return ""


def save(report: Report, markdown: str, folder: Path | str, keep: int | None = None) -> SavedReport:
    """Writes both files of a report, each whole or not at all, then prunes to `keep`. Never raises for a bad disk."""
    place = report_folder(folder, report.runbook, report.target)
    saved = _save_files(place, stem(report.started_at, report.id), to_json(report), markdown)
    if keep and saved.record:
        prune(folder, report.runbook, report.target, keep)
    return saved


def save_nightly(report: NightlyReport, markdown: str, folder: Path | str, keep: int | None = None) -> SavedReport:
    """The same for a nightly or sweep report: <folder>/<its kind>/<fleet>/…"""
    place = report_folder(folder, report.kind, report.fleet)
    saved = _save_files(place, stem(report.started_at, report.id), to_json(report), markdown)
    if keep and saved.record:
        prune(folder, report.kind, report.fleet, keep)
    return saved


def report_folder(folder: Path | str, runbook: str, target: str) -> Path:
    """The folder of one runbook's reports on one target."""
    return lasting(folder) / slug(runbook) / slug(target)


def stem(at: datetime, report_id: str) -> str:
    """File name without ending; names sort by time."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{slug(report_id)}"


def to_json(report: Report | NightlyReport) -> str:
    """The report as JSON text. Bytes that were not text in a reading become U+FFFD rather than an error."""
    text = json.dumps(report.model_dump(mode="json"), indent=1, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def _save_files(place: Path, name: str, json_text: str, markdown: str) -> SavedReport:
    """The two files do not depend on each other: where one cannot be written the other still is."""
    record, page, problems = place / f"{name}.json", place / f"{name}.md", []
    written: dict[Path, bool] = {}
    for path, text in ((record, json_text), (page, markdown)):
        try:
            place.mkdir(parents=True, exist_ok=True)
            _write_at_once(path, text)
            written[path] = True
        except OSError as e:
            problems.append(f"{path} could not be written: {_plain(e)}")
    if record in written:
        _point_latest(place, record.name)
    return SavedReport(
        record=record if record in written else None,
        markdown=page if page in written else None,
        problems=tuple(problems),
    )


def _write_at_once(path: Path, text: str) -> None:
    """`path` holds the old content or the whole new one, never a part. Raises OSError and leaves no temporary file."""
    tmp = path.with_name(f"{TMP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with tmp.open("x", encoding="utf-8", errors="replace") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        tmp.replace(path)
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink()


def _point_latest(place: Path, name: str) -> None:
    """latest.json -> newest report: for people only (`latest` below does not use it), so failure is no error.

    Others write and prune at the same time: the newest may be theirs, and the one pointed at may go meanwhile.
    """
    with contextlib.suppress(OSError):
        for _ in range(3):
            tmp = place / f"{TMP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
            tmp.symlink_to(max((p.name for p in place.glob("2*.json")), default=name))
            tmp.replace(place / LATEST)
            if (place / LATEST).exists():
                return


def _plain(error: OSError) -> str:
    hints = {
        errno.ENOSPC: "the disk is full; free space or choose another folder with --out",
        errno.EDQUOT: "the disk quota is used up; free space or choose another folder with --out",
        errno.EROFS: "the file system is read-only; choose another folder with --out",
        errno.EACCES: "permission denied; choose another folder with --out, or chown it",
        errno.EPERM: "permission denied; choose another folder with --out",
        errno.ENOTDIR: "a file stands where a folder is needed; choose another folder with --out",
        errno.EEXIST: "a file stands where a folder is needed; choose another folder with --out",
    }
    return hints.get(error.errno or 0, f"{error.strerror or error}; choose another folder with --out")


def saved_report(folder: Path | str, report_id: str) -> Path | None:
    """The Markdown file of the report with that id, under whatever runbook and target; None: there is none."""
    return next(lasting(folder).glob(f"*/*/2*Z-{slug(report_id)}.md"), None)


def history(folder: Path | str, runbook: str, target: str) -> Iterator[dict[str, Any]]:
    """Earlier reports as JSON data, newest first. Damaged or half-copied files are passed over."""
    for path in reversed(_reports(report_folder(folder, runbook, target))):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict):
            yield data


def latest(folder: Path | str, runbook: str, target: str) -> dict[str, Any] | None:
    """The newest readable report of that runbook and target as JSON data; None: there is none."""
    return next(history(folder, runbook, target), None)


def earlier_evidence(
    folder: Path | str, runbook: str, target: str, lookback_s: float, now: datetime
) -> dict[str, Any] | None:
    """The earlier report (whole, as JSON data) to bridge a limit of `lookback_s` with: the newest one at least that old.

    Where none is that old, the oldest there is. A report from the future (clock set back) is not used. 0 asks for none.
    """
    if lookback_s <= 0:
        return None
    best = None
    for report in history(folder, runbook, target):
        age = _age_s(report, now)
        if age is None or age < 0 or not report.get("evidence"):
            continue
        best = report
        if age >= lookback_s:
            break
    return best


def last_answer(folder: Path | str, runbook: str, target: str, trigger: str) -> dict[str, Any] | None:
    """The newest report that such a sweep made of that target and that gave an answer, as JSON data."""
    newest = islice(history(folder, runbook, target), LOOK_BACK)
    return next((r for r in newest if r.get("trigger") == trigger and r.get("outcome") in ANSWERS and _evidence(r)), None)


def _evidence(report: dict[str, Any]) -> bool:
    return isinstance(report.get("evidence"), dict) and "taken_at" in report["evidence"]


def _age_s(report: dict[str, Any], now: datetime) -> float | None:
    evidence = report.get("evidence")
    taken = evidence.get("taken_at") if isinstance(evidence, dict) else None
    try:
        at = datetime.fromisoformat(str(taken or report.get("started_at")))
    except ValueError:
        return None
    return (now - at).total_seconds() if at.tzinfo else None


def prune(folder: Path | str, runbook: str, target: str, keep: int) -> int:
    """Removes all but the newest `keep` reports (and stale temporary files). Returns how many reports."""
    place = report_folder(folder, runbook, target)
    old = _reports(place)[:-keep] if keep > 0 else []
    removed = 0
    for path in old:
        with contextlib.suppress(OSError):
            path.with_suffix(".md").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            removed += 1
    _remove_stale(place)
    return removed


def _remove_stale(place: Path) -> None:
    limit = time.time() - TMP_AGE_S
    for path in place.glob(f"{TMP_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < limit:
                path.unlink()


def _reports(place: Path) -> list[Path]:
    """JSON files of reports, oldest first."""
    return sorted(p for p in place.glob("*.json") if p.name != LATEST and not p.name.startswith(TMP_PREFIX))
