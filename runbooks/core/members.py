"""What can be ended, by one name each: what a look found to belong together, and what a step ends, are compared by it. Pure."""

from collections.abc import Callable, Iterator

from runbooks.core.args.containers import StopSupervisor
from runbooks.core.args.nodes import ResetNodeJobs, TerminateProcesses
from runbooks.core.args.rendezvous import DeleteRunKeys
from runbooks.core.args.workers import EndPod, MarkWorkerRow
from runbooks.core.plan import Step

ORCHESTRATOR = "the orchestrator"  # a member: its process, which a new deployment replaces


def process(pid: int, place: str) -> str:
    """A member: a pid is one process of one machine only."""
    return f"pid {pid} on {place}"


def node(name: str) -> str:
    """A member: a machine, with all that the step's own service runs on it."""
    return f"node {name}"


def run(ident: str, backend: str) -> str:
    """A member: a rendezvous' run; two backends may use one id."""
    return f"run {ident} ({backend})"


def container(ident: str) -> str:
    """A member: a container by its full id."""
    return f"container {ident}"


def ends_processes(step: Step) -> Iterator[str]:
    for one in step.typed(TerminateProcesses).processes:
        yield process(one.pid, step.owner)


def ends_pid(step: Step) -> Iterator[str]:
    yield process(step.typed(StopSupervisor).pid, step.owner)


def ends_by(key: str, word: str) -> Callable[[Step], Iterator[str]]:
    def read(step: Step) -> Iterator[str]:
        yield f"{word} {step.args[key]}"

    return read


def ends_worker_row(step: Step) -> Iterator[str]:
    args = step.typed(MarkWorkerRow)
    if args.to != "active":  # a row that is put to active ends nothing
        yield f"worker {args.worker}"
        yield from (f"pod {pod}" for pod in [args.pod] if pod)


def ends_pod(step: Step) -> Iterator[str]:
    args = step.typed(EndPod)
    yield f"pod {args.pod}"
    yield f"worker {args.worker}"


def ends_run(step: Step) -> Iterator[str]:
    args = step.typed(DeleteRunKeys)
    yield run(args.run, args.backend)


def ends_gone(step: Step) -> Iterator[str]:
    args = step.typed(ResetNodeJobs)
    yield node(args.node)
    for one in args.gone:
        yield process(one.pid, args.node)


def ends_orchestrator(_: Step) -> Iterator[str]:
    yield ORCHESTRATOR
