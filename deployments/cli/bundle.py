"""`gpu-runbooks bundle TARGET`: one archive with what a person elsewhere needs to look into an incident."""

import io
import json
import os
import sys
import tarfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.cli.missing_secrets import check_secrets
from deployments.cli.terminal import rewrite
from deployments.errors import CommandError
from deployments.paths import home
from runbooks.core.clean import one_line

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet
    from runbooks.core.redact import Redactor
    from tasks.remote.support_bundle import Piece

SCHEMA = "gpu-runbooks-bundle/1"
SMALL = 262_144  # characters up to which a log is kept whole
LARGEST = 64 << 20  # characters of all pieces together
REPORTS = 3  # newest reports kept of each runbook
READ_ME = """A support bundle of gpu-runbooks.

readings/       what the machine said       logs/          kernel, journal, sshd, named files: known lines and their surroundings
configuration/  secrets replaced            containers/    inspect and log of the newest ones
versions/       of the system and packages  steps/         the newest reports of every runbook on this target

bundle.json lists every command with its outcome, and the reason for everything that is missing. Secrets are replaced by
<secret:NAME:hash>; equal hashes mean equal values. Check the bundle before you share it: it contains host names, addresses,
user names and paths. `gpu-runbooks triage THIS-FILE.tar.gz` reads it directly.
"""


def cmd_bundle(ns: Namespace) -> int:
    """Writes the archive. 0 where the machine was read, 3 where it could not be (what is known here is in it then)."""
    from flows.config import load_fleet, with_target

    found = load_fleet(ns.fleet)
    fleet, target = with_target(found, ns.target, bool(ns.fleet))
    place = _place(ns.out, target)
    check_secrets(found, ns.fleet)
    shown = Steps(sys.stderr.isatty() or ns.progress)
    pieces = list(_within(LARGEST, _windowed(shown.follow(_pieces(fleet, target, tuple(ns.log), ns.seconds)))))
    shown.end()
    read = sum(bool(p.text) for p in pieces if p.command)
    contents = _contents(target, pieces, read)
    size = write(place, pieces, contents)
    if ns.json:
        print(json.dumps({"bundle": str(place), "bytes": size, **contents}, indent=1))
    else:
        print(_summary(place, size, pieces, read))
    return 0 if read else 3


def _place(out: str | None, target: str) -> Path:
    from runbooks.core.names import slug

    name = f"gpu-runbooks-bundle-{slug(target)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz"
    path = home(out or name).absolute()
    path = path / name if path.is_dir() else path
    if path.exists() and not path.is_file():
        raise CommandError(f"{path}: not a file; a bundle must not replace a device or a pipe")
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent}: no such folder (--out names a folder or the archive itself)")
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"{path.parent}: not writable; use --out")
    return path


def _pieces(fleet: "Fleet", target: str, logs: tuple[str, ...], seconds: float) -> "Iterator[Piece]":
    from tasks.installation import installation_redactor
    from tasks.remote.support_bundle import Collector, Piece
    from tasks.transport.base import TransportError
    from tasks.transport.open import HostPool

    redact = installation_redactor()
    yield from _known_here(fleet, target, redact)
    pool = HostPool()
    try:
        collector = Collector(pool(fleet.node(target)), redact, time.monotonic() + seconds)
        yield from collector.collect(logs)
        gone = collector.gone
    except TransportError as e:
        gone = e.why
    finally:
        notes = redact.text("\n".join(pool.notes))
        pool.close_all()
    if gone:
        yield Piece(name="readings/connection.txt", command="", text=redact.text(f"{target}: {gone}\n"), problem="")
    if notes:
        yield Piece(name="readings/connection-notes.txt", command="", text=notes + "\n")


def _known_here(fleet: "Fleet", target: str, redact: "Redactor") -> "Iterator[Piece]":
    """What this side has: the fleet file's words about the node, versions, reports."""
    from importlib.metadata import version

    from runbooks.core.report import SCHEMA as REPORT
    from tasks.remote.support_bundle import Piece

    node = redact.data(fleet.node(target).model_dump(mode="json"))
    yield Piece(name="configuration/fleet-node.json", command="", text=json.dumps(node, indent=1))
    ours = f"gpu-runbooks {version('gpu-runbooks')}\nreport schema {REPORT}\npython {sys.version.split()[0]}\n"
    yield Piece(name="versions/gpu-runbooks.txt", command="", text=ours)
    for path in _reports(fleet, target):
        name = f"steps/{path.parent.parent.name}/{path.stem}.report{path.suffix}"
        yield Piece(name=name, command="", text=_report_text(path, redact))


def _report_text(path: Path, redact: "Redactor") -> str:
    """A report, cleaned once more: by its own fields where it is one of today's form, else as any text."""
    from pydantic import ValidationError

    from runbooks.core.redact_own import own_model
    from runbooks.core.report import Report

    text = path.read_text(encoding="utf-8", errors="replace")[: 2 << 20]
    try:
        return json.dumps(own_model(redact, Report.model_validate_json(text), sentences=True), indent=1)
    except ValidationError:
        return redact.text(text)


def _reports(fleet: "Fleet", target: str) -> Iterable[Path]:
    from deployments.cli.list import own_reports
    from runbooks.core.catalog import runbook_heads
    from tasks.report_store import report_folder

    root = own_reports(fleet.reports.folder)
    for head in runbook_heads():
        place = report_folder(root, head["slug"], target)
        newest = sorted((p for p in place.glob("*.json") if not p.is_symlink()), reverse=True)[:REPORTS]
        yield from (q for p in newest for q in (p, p.with_suffix(".md")) if q.is_file())


def _windowed(pieces: "Iterable[Piece]") -> "Iterator[Piece]":
    """Long logs cut down to their relevant windows."""
    from runbooks.triage.windows import windows

    for piece in pieces:
        log = piece.name.startswith(("logs/", "containers/")) and not piece.name.endswith(".json")
        yield piece.model_copy(update={"text": windows(piece.text, SMALL)}) if log else piece


def _within(most: int, pieces: "Iterable[Piece]") -> "Iterator[Piece]":
    for piece in pieces:
        most -= len(piece.text)
        yield piece if most >= 0 else piece.model_copy(update={"text": "", "problem": "left out: the bundle is full"})


def _contents(target: str, pieces: "list[Piece]", read: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "target": target,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine_read": bool(read),
        "pieces": [{**p.model_dump(exclude={"text"}), "characters": len(p.text)} for p in pieces],
    }


def write(place: Path, pieces: "list[Piece]", contents: dict[str, Any]) -> int:
    """The archive, whole or not at all, for its owner only. Returns its size. Raises CommandError."""
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    files = {"README.txt": READ_ME, "bundle.json": json.dumps(contents, indent=1)}
    files |= {p.name: p.text for p in pieces if p.text}
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
                for name, text in files.items():
                    _add(tar, name, text.encode("utf-8", "replace"))
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(place)
    except OSError as e:
        raise CommandError(f"{place}: {e.strerror or e}") from e
    finally:
        with suppress(OSError):
            scratch.unlink()
    return place.stat().st_size


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    tar.addfile(info, io.BytesIO(data))


def _summary(place: Path, size: int, pieces: "list[Piece]", read: int) -> str:
    missing = [f"  {p.name}: {one_line(p.problem, 150)}" for p in pieces if p.problem and not p.text]
    rows = [f"{place} ({size / 1024:.0f} KiB, {sum(bool(p.text) for p in pieces)} files)"]
    if not read:
        rows.append("The machine could not be read; the bundle holds what is known here.")
    if missing:
        rows += ["not in it:", *missing]
    rows.append(f"next: check it, then share it; `gpu-runbooks triage {place}` reads it")
    return "\n".join(rows)


class Steps:
    """A line on stderr that says what is being read."""

    def __init__(self, on: bool) -> None:
        self._on, self._count = on, 0

    def follow(self, pieces: "Iterable[Piece]") -> "Iterator[Piece]":
        """The pieces, told as they pass."""
        for piece in pieces:
            self._count += 1
            if self._on:
                rewrite(f"{self._count:3} {one_line(piece.name, 60):<60}")
            yield piece

    def end(self) -> None:
        """Take the line away."""
        if self._on:
            rewrite(" " * 66)
            rewrite("")
