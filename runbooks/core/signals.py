"""Steps that signal processes of one node. What is shown is rendered from the very arguments that are carried out. Pure."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from runbooks.core.args.base import ProcessArgs
from runbooks.core.args.nodes import ContinueProcesses, TerminateProcesses
from runbooks.core.by_hand import signalled
from runbooks.core.plan import Step


class Signalled(Protocol):
    """A process as it was read; pid, start and boot are its identity, user and program are compared again."""

    @property
    def pid(self) -> int: ...
    @property
    def start_ticks(self) -> int: ...
    @property
    def command(self) -> str: ...
    @property
    def uid(self) -> int: ...


def continued(node: str, boot_id: str, processes: Sequence[Signalled], effect: str = "") -> Step:
    """Lets stopped processes go on."""
    args = ContinueProcesses(boot_id=boot_id, processes=_identities(processes))
    runs = f"pid {_pids(processes)} {'runs' if len(processes) == 1 else 'run'} again with all that it had in memory"
    return Step(kind="continue-processes", owner=node, args=args.plain(), commands=continuing(args), effect=effect or runs)


def ended(
    node: str, boot_id: str, processes: Sequence[Signalled], *, sid: int, cgroup: str, grace_s: int, effect: str, loses: str,
    gpu_uuids: Sequence[str] = (), freed: int = 0,
) -> Step:  # fmt: skip
    """Ends processes of one session or cgroup: TERM, the grace time, KILL."""
    args = TerminateProcesses(
        boot_id=boot_id, processes=_identities(processes), cgroup=cgroup, sid=sid, gpu_uuids=tuple(gpu_uuids),
        expect_freed_bytes=freed, grace_s=grace_s,
    )  # fmt: skip
    return Step(kind="terminate-processes", owner=node, args=args.plain(), commands=ending(args), effect=effect, loses=loses)


def continuing(args: ContinueProcesses) -> tuple[str, ...]:
    """The commands of a `continue-processes` step."""
    return tuple(_to_all(args.processes, "CONT"))


def ending(args: TerminateProcesses) -> tuple[str, ...]:
    """The commands of a `terminate-processes` step."""
    return (*_to_all(args.processes, "TERM"), f"sleep {args.grace_s}", *_to_all(args.processes, "KILL"))


def _to_all(processes: Iterable[ProcessArgs], signal: str) -> Iterable[str]:
    return (signalled(p.pid, p.start_ticks, signal) for p in processes)


def _identities(processes: Sequence[Signalled]) -> tuple[ProcessArgs, ...]:
    return tuple(ProcessArgs(pid=p.pid, start_ticks=p.start_ticks, command=p.command, uid=p.uid) for p in processes)


def _pids(processes: Sequence[Signalled]) -> str:
    return ", ".join(str(p.pid) for p in processes)
