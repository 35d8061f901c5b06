"""How a command ends: every error that a user, a file, a port, a signal, a disk or a server can cause is one line.

What is left is a fault of ours: it has an exit code of its own, and its traceback goes to a file that the line names.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from deployments.errors import FAULT, CommandError
from flows.engine.interrupted import HUNG_UP

HUNG_UP_CODE, INTERRUPTED, PIPE_CLOSED, TERMINATED, UNUSABLE = 129, 130, 141, 143, 2


class Terminated(BaseException):
    """SIGTERM, or the terminal was closed: what the command has begun is put in order, as after Ctrl-C."""


def ended(command: Callable[[], int], wants_json: bool) -> int:
    """Runs `command` to its exit code, whatever happens in it; SystemExit alone passes (argparse has said why)."""
    try:
        with _signals_raise():
            code = command()
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except Terminated:
        _say("ended by SIGHUP: the terminal was closed" if HUNG_UP.is_set() else "ended by SIGTERM")
        return HUNG_UP_CODE if HUNG_UP.is_set() else TERMINATED
    except EOFError:
        _say("gpu-runbooks: the input ended before an answer was given: nothing was decided")
        return INTERRUPTED
    except BrokenPipeError:
        _to_nowhere()
        return PIPE_CLOSED
    except Exception as error:
        return _failed(error, wants_json)


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP, unless somebody ignores them (nohup). Commands that stay take SIGTERM as their end (`watch`, `gateway`);
    Prefect hands it on after a flow."""
    HUNG_UP.clear()
    terminals = [number for number in range(3) if os.isatty(number)]

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        HUNG_UP.set()
        for number in terminals:  # each line to it would be an error that breaks off the putting in order
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        signal.raise_signal(signal.SIGTERM)  # whoever handles that one puts in order

    wanted = {signal.SIGTERM: _terminate, signal.SIGHUP: hang_up}
    before = {s: signal.getsignal(s) for s in wanted}
    if threading.current_thread() is not threading.main_thread() or before[signal.SIGTERM] in (signal.SIG_IGN, None):
        yield
        return
    mine = {s: handler for s, handler in wanted.items() if before[s] not in (signal.SIG_IGN, None)}
    for s, handler in mine.items():
        signal.signal(s, handler)
    try:
        yield
    finally:
        for s in mine:
            signal.signal(s, before[s])


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


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
    from tasks.fault_file import keep

    text = clean_traceback(error)
    what = clean_line(error_text(error))
    try:
        return f"a bug in gpu-runbooks: {what}. Please report it with {keep(text)}", FAULT
    except OSError:
        _say(text)
        return f"a bug in gpu-runbooks: {what}. Please report it with the lines above; they could not be saved", FAULT


def clean_line(text: str) -> str:
    """The first line, not too long."""
    from runbooks.core.clean import one_line

    return one_line(text.splitlines()[-1] if text.strip() else text, 300)


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
