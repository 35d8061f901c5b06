"""A fault of ours: it is told apart from what a user, a file, a target or a server can cause, and its traceback is kept in a file."""

import contextlib
import errno
import os
import secrets
import sys
import tempfile
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from runbooks.core.config import ConfigError
from runbooks.core.fleet import UnknownNode
from tasks.clean_log import clean_traceback
from tasks.context import ActionRefused
from tasks.installation import state_folder
from tasks.transport.base import TransportError

FAULT_LABEL = "fault"
"""A run's label: what is said of the fault of ours that ended it."""
_BUG = "this is a bug in gpu-runbooks"
_OTHERS = (ConfigError, UnknownNode, ActionRefused, TransportError)
_ASKS_THE_SERVER = ("prefect", "flows.store", "flows.client")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def fault_of(error: BaseException) -> str:
    """Says that it is a fault of ours, and in which file its traceback is; "" for anything else."""
    if not _is_ours(error):
        return ""
    try:
        return f"{_BUG}; please report it with {keep(clean_traceback(error))}"
    except OSError:
        return f"{_BUG}; its traceback could not be saved"


def keep(text: str) -> Path:
    """Writes it to a new file for this user only: in the logs, else among temporary files. Raises OSError if neither can be written."""
    name = f"gpu-runbooks-fault-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-"
    for folder in _folders():
        with contextlib.suppress(OSError):
            path = folder / f"{name}{secrets.token_hex(4)}.txt"  # nothing that Markdown escapes: the path is copied from a report
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as out:
                out.write(f"{' '.join(sys.argv[:2])}\n\n{text}\n")
            return path
    raise OSError("nowhere to write")


def _is_ours(error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, _OTHERS):
        return False
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return False
    return not _of_the_server(error)


def _of_the_server(error: Exception) -> bool:
    """An error of Prefect's, or of HTTP where the Prefect server was asked. Who asks another system has to catch it."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    asked = {str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)}
    return "prefect" in kinds or ("httpx" in kinds and any(f"{m}.".startswith(tuple(f"{a}." for a in _ASKS_THE_SERVER)) for m in asked))


def _folders() -> Iterator[Path]:
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: this user has no home folder
        base = state_folder()
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        (base / "logs").mkdir(exist_ok=True)
        yield base / "logs"
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir())
