"""Arguments of the actions on containers, on their engine, and on whatever else restarts them."""

from typing import Literal

from runbooks.core.args.base import Args, Flag, Pid, Seconds, Whole

Argv = tuple[str, ...]


class Moving(Args):
    """A process of which it was known that it moves."""

    pid: Pid
    start_ticks: Whole


class RestartContainer(Args):
    """One container by its full id. Whoever else than `moving` moves in it is at work, and it is not restarted."""

    container: str
    boot_id: str
    engine: Argv = ("docker",)
    moving: tuple[Moving, ...] = ()


class RecreateContainer(Args):
    """A container as it was judged, the name it is kept under, and the commands that run in the new one."""

    engine: Argv
    socket: str
    name: str
    id: str
    kept: str
    started_at: str  # ISO 8601; "": never
    running: Flag
    sleep: tuple[Whole, str] | tuple[()]  # the word of its command that holds the sleep's length, and that length; (): no sleep
    setup: tuple[Argv, ...]
    setup_timeout_s: Seconds
    mounts: tuple[tuple[str, Argv], ...]  # (path, command)
    start: Argv
    detached: Flag
    moving: tuple[Moving, ...] = ()  # of whom it was known that they are at work in it: who else is, is not ended


class StartContainer(Args):
    """A container that has ended, as it was judged, and the commands that run in it once it runs again."""

    engine: Argv
    socket: str
    name: str
    id: str
    started_at: str
    setup: tuple[Argv, ...]
    setup_timeout_s: Seconds
    mounts: tuple[tuple[str, Argv], ...]  # (path, command)
    start: Argv
    detached: Flag


class RestartApplication(Args):
    """A container as it was judged, a pattern for the processes to end, and the command to start."""

    engine: Argv
    socket: str
    name: str
    id: str
    match: str
    started_at: str
    start: Argv
    detached: Flag
    moving: tuple[Moving, ...] = ()


class RemoveKeptContainer(Args):
    """A container that was kept when it was recreated."""

    socket: str
    id: str
    kept: str


class RemountFuse(Args):
    """A mount, the command that mounts it, and the id of its container; "" on the host."""

    path: str
    where: Literal["host", "container"]
    mount: Argv
    type: str
    engine: Argv
    id: str


class StartEngine(Args):
    """The command that starts the daemon, and its pid file."""

    engine: Argv
    start: Argv
    pidfile: str


class FreeEngineSpace(Args):
    """The engine's command."""

    engine: Argv


class StopSupervisor(Args):
    """A process by its identity."""

    pid: Pid
    start_ticks: Whole
    boot_id: str
    command: str


class StopUnit(Args):
    """A unit in one life (systemd's InvocationID); `uid`: of the user whose own systemd has it."""

    unit: str
    life: str
    uid: Whole | None = None
