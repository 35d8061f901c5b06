"""This installation's own secret: the key under which redacted values are hashed."""

import os
import secrets
from functools import cache
from pathlib import Path

from runbooks.core.redact import Redactor


def state_folder() -> Path:
    """`$GPU_RUNBOOKS_HOME`, else `$XDG_STATE_HOME/gpu-runbooks`, else `~/.local/state/gpu-runbooks`. Not created here."""
    home = os.environ.get("GPU_RUNBOOKS_HOME")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "gpu-runbooks"


def redaction_key() -> bytes:
    """32 bytes, made once and readable by this user only. Where it cannot be kept, one for this process alone."""
    path = state_folder() / "redact.key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError:
        return secrets.token_bytes(32)
    with os.fdopen(fd, "wb") as f:
        key = secrets.token_bytes(32)
        f.write(key)
    return key


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError:
        key = b""
    return key if len(key) >= 32 else secrets.token_bytes(32)


@cache
def installation_redactor() -> Redactor:
    """The redactor of this process, under the installation's key."""
    return Redactor(redaction_key())
