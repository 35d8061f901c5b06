"""A small JSON file that processes change one after another, readable by its owner only."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def locked_json(path: Path) -> Iterator[dict[str, Any]]:
    """The file's content, to be changed in place; written whole (0600) when the block ends without an error."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = path.read_text(encoding="utf-8") if path.exists() else "{}"
        data = json.loads(before)
        yield data
        text = json.dumps(data, indent=1, sort_keys=True)
        if text != before:
            _write(path, text)
    finally:
        os.close(lock)


def _write(path: Path, text: str) -> None:
    tmp = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    tmp.replace(path)
