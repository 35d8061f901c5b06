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
        raise FileNotFoundError(e.errno, f"{e.strerror}{_beside(Path(path))}", str(path)) from None
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB; is it the right file?", str(path))
    return data


def _beside(path: Path) -> str:
    """The files of the same kind in the folder where `path` should be, and the nearest of them."""
    kinds = {path.suffix} | ({".yaml", ".yml"} if path.suffix in (".yaml", ".yml") else set())
    try:
        found = sorted(p.name for p in path.parent.iterdir() if p.suffix in kinds)
    except OSError:
        return ""
    return f"; in {path.parent} {there_are(path.name, found, most=8)}"
