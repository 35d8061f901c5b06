"""The state folder: where the local server, its database, logs and process records live."""

import fcntl
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.errors import CommandError
from runbooks.core.base import Frozen
from tasks.installation import state_folder


class Proc(Frozen):
    """A process that `up` started."""

    name: str
    pid: int
    start_ticks: int


class LocalState(Frozen):
    """What `up` wrote down."""

    port: int
    api: str
    ui: str
    processes: tuple[Proc, ...] = ()


def state_dir() -> Path:
    """`$GPU_RUNBOOKS_HOME`, else `$XDG_STATE_HOME/gpu-runbooks`, else `~/.local/state/gpu-runbooks`. Mode 0700."""
    try:
        base = state_folder()
    except RuntimeError as e:  # neither HOME nor an entry in passwd
        raise CommandError("this user has no home folder; set GPU_RUNBOOKS_HOME to a folder that it may write") from e
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        _for_this_user_only(base)
    except OSError as e:
        raise CommandError(
            f"the state folder {base} cannot be used ({e.strerror}); set GPU_RUNBOOKS_HOME to another"
        ) from e
    return base


def _for_this_user_only(folder: Path) -> None:
    """An older folder, or one made by hand, is closed to others: logs, reports and keys lie in it."""
    found = folder.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        folder.chmod(found.st_mode & 0o700)


def freeze_file() -> Path:
    """While this file exists, nothing on this machine acts."""
    return state_dir() / "FREEZE"


def read_state() -> LocalState | None:
    """What `up` wrote, or None if it never ran or the file is damaged."""
    try:
        return LocalState.model_validate_json((state_dir() / "server.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no JSON, another shape, or not even text
        return None


def write_state(state: LocalState) -> None:
    """Replaces the record at once."""
    path = state_dir() / "server.json"
    tmp = path.with_suffix(f".{os.getpid()}.tmp")
    tmp.write_text(state.model_dump_json(indent=1), encoding="utf-8")
    tmp.replace(path)


def auth_string() -> str:
    """`user:password` of the local server, made once, readable by this user only."""
    path = state_dir() / "auth.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["auth"])
    except (OSError, ValueError, KeyError, TypeError):
        auth = f"admin:{secrets.token_urlsafe(24)}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            json.dump({"auth": auth}, f)
        return auth


@contextmanager
def only_one() -> Iterator[None]:
    """Holds the lock that `up` and `down` share."""
    with (state_dir() / "lock").open("w", encoding="utf-8") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another command is starting or stopping the server; waiting …", file=sys.stderr, flush=True)
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


def use_server(state: LocalState) -> None:
    """Points Prefect at the local server. Call before importing prefect."""
    os.environ.update(prefect_env(state))


def prefect_env(state: LocalState) -> dict[str, str]:
    """Environment of every process that talks to the local server. No traffic leaves this machine."""
    home = state_dir()
    return {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": state.api,
        "PREFECT_API_AUTH_STRING": auth_string(),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "flows,tasks",
        "DO_NOT_TRACK": "1",
        "GPU_RUNBOOKS_HOME": str(home),
    }
