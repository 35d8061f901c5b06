"""Runs commands on this machine: argv only, own session, a time limit for the whole group, capped output."""

import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from runbooks.core.reading import UnknownReason
from runbooks.core.secret_names import is_secret_name
from tasks.transport.base import CommandResult, TransportError
from tasks.transport.capture import Capture, LeftRunning

_AFTER_EXIT_S = 0.5  # how long output is awaited when the command has ended but a child of it holds the pipe
_KILL_S = 2.0  # between SIGTERM and SIGKILL, and until it is called unkillable
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/nvidia/bin")


class LocalHost:
    """This machine."""

    def __init__(self, name: str = "local") -> None:
        self._name, self._closed = name, False
        self._left = LeftRunning()
        self._variables: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name in the fleet file."""
        return self._name

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing to tell about a connection that does not exist."""
        return ()

    def let_see(self, variables: Iterable[str]) -> None:
        """Commands see these variables of this process although their names look secret: the fleet file names them."""
        self._variables |= frozenset(variables)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 20.0,
        limit_bytes: int = 1 << 20,
    ) -> CommandResult:
        """Run `argv` here. Raises TransportError: tool-missing, denied, timed-out."""
        command = shlex.join(argv)
        if self._closed:
            raise TransportError(UnknownReason.UNREACHABLE, "this host was closed", command)
        self._left.refuse(argv, stdin)
        began = time.monotonic()
        process = _start(argv, command, clean_environment(self._variables))
        out, err = Capture(limit_bytes), Capture(limit_bytes)
        try:
            in_time = _drain(process, out, err, stdin, lambda: time.monotonic() < began + timeout_s and not self._closed)
            if not in_time:
                self._end(process, argv, stdin, timeout_s)
        except TransportError:
            raise
        except BaseException:  # Ctrl-C: in its session, the command hears nothing of it
            if process.poll() is None:
                _end_group(process)
            raise
        finally:
            _close_pipes(process)
        return CommandResult(
            command=command,
            exit=process.returncode if process.returncode >= 0 else 128 - process.returncode,
            out=out.text,
            err=err.text,
            seconds=time.monotonic() - began,
            truncated=out.truncated or err.truncated,
        )

    def close(self) -> None:
        """Later calls raise, and a command that runs is ended."""
        self._closed = True

    def _end(self, process: "subprocess.Popen[bytes]", argv: Sequence[str], stdin: str | None, limit: float) -> None:
        """End the process group; always raises TransportError."""
        if _end_group(process):
            if self._closed:
                raise TransportError(UnknownReason.UNREACHABLE, "this host was closed", shlex.join(argv))
            raise TransportError(UnknownReason.TIMED_OUT, f"no answer within {limit:g} s; it was ended", shlex.join(argv))
        detail = f"no answer within {limit:g} s and it cannot be ended: left running, pid {process.pid}"
        self._left.note(argv, stdin, detail)
        raise TransportError(UnknownReason.TIMED_OUT, detail, shlex.join(argv))


def _start(argv: Sequence[str], command: str, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    if not argv:
        raise ValueError("an empty command")
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            list(argv),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            env=env,
            cwd=_home(),
            bufsize=0,
        )
    except FileNotFoundError:
        raise TransportError(UnknownReason.TOOL_MISSING, f"{argv[0]} is not installed here", command) from None
    except (PermissionError, NotADirectoryError) as e:
        raise TransportError(UnknownReason.DENIED, f"{argv[0]}: {e.strerror}", command) from None
    except (OSError, ValueError) as e:
        raise TransportError(UnknownReason.FAILED, f"cannot start {argv[0]}: {e}", command) from None


def _home() -> str:
    """Where commands begin, as over SSH. The process's own folder may be a worker's temporary one, which is removed."""
    home = os.path.expanduser("~")  # noqa: PTH111 - pathlib raises where there is none
    return home if os.path.isdir(home) and os.access(home, os.X_OK) else "/"  # noqa: PTH112 - sudo may leave another's


def clean_environment(seen: Collection[str] = ()) -> dict[str, str]:
    """This process's environment without secrets (but those that are to be seen) and what is Prefect's, with the system
    folders in PATH."""
    own = {n: v for n, v in os.environ.items() if not n.startswith("PREFECT_")}
    env = {n: v for n, v in own.items() if n in seen or not is_secret_name(n)}
    path = env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    return env | {"PATH": ":".join([*path, *(d for d in SBIN if d not in path)])}


def _drain(process: "subprocess.Popen[bytes]", out: Capture, err: Capture, stdin: str | None, may: Callable[[], bool]) -> bool:
    """Feed stdin and read both streams until the command has ended. False if it may not run any longer."""
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(process.stdin, (stdin or "").encode(), stop), daemon=True)
    feeder.start()
    with selectors.DefaultSelector() as selector:
        selector.register(cast(IO[bytes], process.stdout), selectors.EVENT_READ, out)
        selector.register(cast(IO[bytes], process.stderr), selectors.EVENT_READ, err)
        for ended_at in _ticks(process, may):
            if not selector.get_map() and ended_at:
                break
            _read_ready(selector, 0.05)
            if ended_at and time.monotonic() - ended_at > _AFTER_EXIT_S:
                break  # a child that goes on by itself holds the pipe
    stop.set()
    return process.returncode is not None


def _ticks(process: "subprocess.Popen[bytes]", may: Callable[[], bool]) -> Iterator[float]:
    """While it may run: 0 while the command runs, then when it ended (monotonic)."""
    ended = 0.0
    while may() or ended:
        if not ended and process.poll() is not None:
            ended = time.monotonic()
        yield ended


def _read_ready(selector: selectors.BaseSelector, wait_s: float) -> None:
    if not selector.get_map():
        time.sleep(0.005)
        return
    for key, _ in selector.select(wait_s):
        data = os.read(key.fd, 65536)
        if data:
            key.data.feed(data)
        else:
            selector.unregister(key.fileobj)


def _feed(pipe: IO[bytes], data: bytes, stop: threading.Event) -> None:
    """Write stdin; the command may leave before it has read everything."""
    with suppress(OSError, ValueError):
        for at in range(0, len(data), 65536):
            if stop.is_set():
                break
            pipe.write(data[at : at + 65536])
    with suppress(OSError, ValueError):
        pipe.close()


def _end_group(process: "subprocess.Popen[bytes]") -> bool:
    """TERM, then KILL the process group. True if the command is gone."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
            os.killpg(process.pid, signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_S)
            _kill_rest(process.pid)
            return True
    return False


def _kill_rest(group: int) -> None:
    """KILL what is left of the group when its leader has gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def read_state(pid: int) -> str:
    """State letter of a process from /proc; "" if it is gone. For tests and the lab."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""
