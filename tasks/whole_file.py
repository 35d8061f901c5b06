"""Reads a file that a person named, whole, but never more than so much: `/dev/zero` has no end and says that it is empty."""

import errno
from pathlib import Path

from runbooks.core.names import there_are


def read_whole(path: str | Path, most: int) -> bytes:
    """The file's bytes. Raises OSError, also for a file of more than `most` bytes; one that is not there says what lies beside it."""
    try:
        with Path(path).open("rb") as f:
            data = f.read(most + 1)
    except FileNotFoundError as e:
        raise FileNotFoundError(e.errno, f"{e.strerror}{beside(Path(path))}", str(path)) from None
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB; is it the right file?", str(path))
    return data


def nearest_beside(path: Path) -> str:
    """The nearest name to one that is not there, alone: reports do not list what lies in a person's folder."""
    _, found, name = beside(path, any_kind=True).partition("; nearest: ")
    return f"{found}{name}"


def beside(path: Path, any_kind: bool = False) -> str:
    """What lies where `path` should be, and the nearest name to it: files of its kind, or with `any_kind` everything. Of a folder
    on the way that is not there either, the folders beside that."""
    kinds = {path.suffix} | ({".yaml", ".yml"} if path.suffix in (".yaml", ".yml") else set())
    try:
        gone = next(p for p in (path, *path.parents) if p.parent.exists())
        found = [p for p in gone.parent.iterdir() if any_kind or (p.suffix in kinds if gone == path else p.is_dir())]
    except (OSError, StopIteration):
        return ""
    return f"; in {gone.parent} {there_are(gone.name, sorted(p.name for p in found), most=8)}"
