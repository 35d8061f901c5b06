"""Saves the keys of one run to a file before they are deleted, and proves that the file says what was read."""

import os
from itertools import count
from pathlib import Path

from runbooks.core.names import slug
from runbooks.rendezvous.saved import BadSave, SavedKeys, too_large
from tasks.rendezvous.saved import read_saved


class NotSaved(Exception):
    """There is no file from which the keys could be put back."""


def write_saved(saved: SavedKeys, folder: Path) -> Path:
    """Write the file, make it durable, read it back and compare. Replaces nothing. Raises NotSaved."""
    text = saved.model_dump_json(indent=1)
    if no := too_large(saved, text):
        raise NotSaved(f"{no}: they could not be put back")
    name = f"{slug('rendezvous', saved.rendezvous, saved.run, saved.backend)}-{saved.saved_at:%Y%m%dT%H%M%S}"
    try:
        _make(folder)
        path = _write(text, folder, name)
        _sync_folder(folder)
        found, _ = read_saved(path)
    except (OSError, BadSave) as e:
        raise NotSaved(str(e)) from e
    if found != saved:
        raise NotSaved(f"{path} does not say what was written")
    return path


def _write(text: str, folder: Path, name: str) -> Path:
    """Whole or not at all; a name that is taken stays as it is, and the next free one is used."""
    part = folder / f".{name}.{os.getpid()}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        for n in count(1):
            path = folder / (f"{name}.json" if n == 1 else f"{name}-{n}.json")
            try:
                os.link(part, path)
            except FileExistsError:
                continue
            return path
    finally:
        part.unlink()
    raise AssertionError


def _make(folder: Path) -> None:
    """The folder, and each new part of its path made durable: a file is only as safe as its name."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync_folder(made.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
