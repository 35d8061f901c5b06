"""How a command ends: every error that a user, a file, a port, a signal, a disk or a server can cause is one line.

What is left is a fault of ours: it has an exit code of its own, and its traceback goes to a file that the line names.
"""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from deployments.errors import FAULT, CommandError

INTERRUPTED, PIPE_CLOSED, UNUSABLE = 130, 141, 2


def ended(command: Callable[[], int], wants_json: bool) -> int:
    """Runs `command` to its exit code, whatever happens in it; SystemExit alone passes (argparse has said why)."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except EOFError:
        _say("gpu-runbooks: the input ended before an answer was given: nothing was decided")
        return INTERRUPTED
    except BrokenPipeError:
        _to_nowhere()
        return PIPE_CLOSED
    except Exception as error:
        return _failed(error, wants_json)


def _failed(error: Exception, wants_json: bool) -> int:
    message, code = _expected(error) or _fault(error)
    _say(f"gpu-runbooks: {message}")
    try:
        if wants_json:
            print(json.dumps({"error": message, "exit_code": code}))
        sys.stdout.flush()
    except OSError:
        _to_nowhere()
    return code


def _expected(error: Exception) -> tuple[str, int] | None:
    """Message and exit code of what the operator can put right; None for anything else."""
    from deployments.contact import lost
    from runbooks.core.config import ConfigError
    from runbooks.core.fleet import UnknownNode

    if isinstance(error, CommandError):
        return str(error), error.exit_code
    if isinstance(error, ConfigError | UnknownNode):
        return str(error), UNUSABLE
    no_server = lost(error)
    if no_server:
        return str(no_server), no_server.exit_code
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or error.filename2
        return f"{os.fsdecode(place)}: {error.strerror}" if isinstance(place, str | bytes) else error.strerror, UNUSABLE
    return None


def _fault(error: Exception) -> tuple[str, int]:
    """Ours. The traceback is kept for who mends it; where nothing can be written it is printed."""
    from runbooks.core.error_text import error_text
    from tasks.clean_log import clean_traceback

    text = clean_traceback(error)
    what = clean_line(error_text(error))
    try:
        return f"a bug in gpu-runbooks: {what}. Please report it with {_kept(text)}", FAULT
    except (OSError, CommandError):
        _say(text)
        return f"a bug in gpu-runbooks: {what}. Please report it with the lines above; they could not be saved", FAULT


def clean_line(text: str) -> str:
    """The first line, not too long."""
    from runbooks.core.clean import one_line

    return one_line(text.splitlines()[-1] if text.strip() else text, 300)


def _kept(text: str) -> Path:
    name = f"gpu-runbooks-fault-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-"
    for folder in (_logs(), Path(tempfile.gettempdir())):
        if folder is None:
            continue
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix=name, suffix=".txt", dir=folder)  # for this user only
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as out:
                out.write(f"{' '.join(sys.argv[:2])}\n\n{text}\n")
            return Path(path)
    raise OSError("nowhere to write")


def _logs() -> Path | None:
    from deployments.state import state_dir

    try:
        folder = state_dir() / "logs"
        folder.mkdir(exist_ok=True)
    except (OSError, CommandError):
        return None
    return folder


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _to_nowhere() -> None:
    """What is still to be printed goes nowhere: its reader is gone, or its disk is full."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Standard streams that were closed lead nowhere: no file that is opened later takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w", encoding="utf-8"))
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks
