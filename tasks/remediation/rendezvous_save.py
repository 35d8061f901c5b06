"""Saves the keys of one run to a file before they are deleted."""

import os
from pathlib import Path

from runbooks.core.names import slug
from runbooks.stale_rendezvous.saved import Saved


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
