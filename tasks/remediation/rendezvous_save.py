"""Saves the keys of one run to a file before they are deleted, and reads such a file."""

import json
import os
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from runbooks.core.base import Frozen
from runbooks.core.names import slug
from runbooks.parsers.etcd_v2 import Key

FORMAT = 1


class Saved(Frozen):
    """One run's keys as they were."""

    format: int = FORMAT
    rendezvous: str
    endpoint: str
    backend: str
    run: str
    saved_at: datetime  # by the engine's clock: time to live is counted from here
    keys: tuple[Key, ...]  # parents before children


class BadSave(Exception):
    """Not a file that this project saved, or not whole."""


def write_saved(saved: Saved, folder: Path) -> Path:
    """Write the file and make it durable before anything is deleted. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = f"{saved.saved_at:%Y%m%dT%H%M%S}"
    path = folder / f"{slug('rendezvous', saved.rendezvous, saved.run, saved.backend)}-{stamp}.json"
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        f.write(saved.model_dump_json(indent=1))
        f.flush()
        os.fsync(f.fileno())
    part.rename(path)
    _sync_folder(folder)
    return path


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_saved(path: Path) -> Saved:
    """The file's content. Raises BadSave."""
    try:
        saved = Saved.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as e:
        raise BadSave(f"{path}: not a saved run: {e}") from e
    if saved.format != FORMAT:
        raise BadSave(f"{path}: format {saved.format}, this version reads {FORMAT}")
    return saved
