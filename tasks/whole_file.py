"""Reads a file that a person named, whole, but never more than so much: `/dev/zero` has no end and says that it is empty."""

import errno
from pathlib import Path


def read_whole(path: str | Path, most: int) -> bytes:
    """The file's bytes. Raises OSError, also for a file of more than `most` bytes."""
    with Path(path).open("rb") as f:
        data = f.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB; is it the right file?", str(path))
    return data
