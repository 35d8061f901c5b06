"""What was worked out from the knowledge's files, kept in the user's cache folder until they change."""

import hashlib
import os
from pathlib import Path

SEAL = hashlib.sha256().digest_size  # bytes before the data that say that it is whole


def digest_of(what: object) -> str:
    """A short name for exactly this content."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def path_of(kind: str, digest: str) -> Path | None:
    """Where it is kept; None for a user without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - pathlib raises
    return base / "gpu-runbooks" / f"{kind}-{digest}.bin" if base.is_absolute() else None


def kept(kind: str, digest: str) -> bytes | None:
    """What was kept; None for what is not there, not whole, or was written by somebody else."""
    path = path_of(kind, digest)
    try:
        if path is None or path.stat().st_uid not in (os.geteuid(), 0):
            return None
        sealed = path.read_bytes()
    except OSError:
        return None
    data = sealed[SEAL:]
    return data if hashlib.sha256(data).digest() == sealed[:SEAL] else None


def keep(kind: str, digest: str, data: bytes) -> None:
    """Write it and remove what it replaces; a read-only home only costs time."""
    path = path_of(kind, digest)
    if path is None:
        return
    scratch = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(scratch, hashlib.sha256(data).digest() + data)
        scratch.replace(path)
        for old in path.parent.glob(f"{kind}-*"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        return


def _write(path: Path, data: bytes) -> None:
    """A new file: never through a link that somebody laid there."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
