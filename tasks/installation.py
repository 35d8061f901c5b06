"""What is this installation's own: where it keeps what outlives a run, and the key under which redacted values are hashed."""

import os
import secrets
from functools import cache
from pathlib import Path

from runbooks.core.redact import Redactor


def state_folder() -> Path:
    """`$GPU_RUNBOOKS_HOME`, else `$XDG_STATE_HOME/gpu-runbooks`, else `~/.local/state/gpu-runbooks`. Not created here.

    Always absolute. A relative setting lies in the home folder: the command line makes it absolute before anything reads it.
    """
    home = os.environ.get("GPU_RUNBOOKS_HOME")
    found = Path(home or Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "gpu-runbooks").expanduser()
    return found if found.is_absolute() else Path.home() / found


def lasting(path: str | Path, root: Path | None = None) -> Path:
    """The absolute path of something that outlives a run. `~` is the home folder; a relative one lies in `root`, else in
    the state folder; never in the process's own: a worker runs each flow in a temporary folder and removes it afterwards.
    """
    found = Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for a user that is not there
    return found if found.is_absolute() else (root or state_folder()) / found


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
