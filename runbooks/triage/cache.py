"""What was worked out from the knowledge's files, kept in the user's cache folder until they change."""

import hashlib
import os
from pathlib import Path


def digest_of(what: object) -> str:
    """A short name for exactly this content."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def cached(kind: str, digest: str) -> Path:
    """Where it is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "gpu-runbooks" / f"{kind}-{digest}.bin"


def keep(kind: str, digest: str, data: bytes) -> None:
    """Write it and remove what it replaces; a read-only home only costs time."""
    path = cached(kind, digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(data)
        scratch.replace(path)
        for old in path.parent.glob(f"{kind}-*"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        return
