"""Nobody is ended while a mate is at work: a plan that ends a member of such a group is withheld, and the report says who works.

A group is what one look found to belong together. The rule has no exception in the engine: who knows better does it by hand,
having read the sentence. Pure.
"""

from collections.abc import Callable, Iterator

from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Diagnosis, Group

MOST_NAMED = 3  # of those at work, in one sentence


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


def together(found: Diagnosis) -> Diagnosis:
    """The judgment without the plans that would end a part of a group in which somebody is at work."""
    against = [(plan, why) for plan in found.plans if (why := objection(found.groups, plan))]
    if not against:
        return found
    gone = {plan.name for plan, _ in against}
    said = tuple(f"“{plan.name}” is not offered: {why}" for plan, why in against)
    return found.model_copy(update={"plans": tuple(p for p in found.plans if p.name not in gone), "do_now": (*found.do_now, *said)})


def objection(groups: tuple[Group, ...], plan: Plan) -> str:
    """Who is at work beside what that plan would end, "" if nobody."""
    for step in plan.steps:
        for group in groups:
            hit = sorted(ends(step) & set(group.members)) if group.at_work else []
            if hit:
                more = "" if len(hit) == 1 else f" and {len(hit) - 1} more"
                return f"{hit[0]}{more} belongs to {group.name}, of which {'; '.join(group.at_work[:MOST_NAMED])}"
    return ""


def ends(step: Step) -> frozenset[str]:
    """What that step ends, stops or starts anew, as members of a group; of a kind that leaves all running, nothing."""
    read = ENDS.get(step.kind)
    return frozenset(read(step)) if read else frozenset()


def _processes(step: Step) -> Iterator[str]:
    for one in step.args.get("processes", ()):
        yield process(one["pid"], step.owner)


def _pid(step: Step) -> Iterator[str]:
    yield process(step.args["pid"], step.owner)


def _by(key: str, word: str) -> Callable[[Step], Iterator[str]]:
    def read(step: Step) -> Iterator[str]:
        yield f"{word} {step.args[key]}"

    return read


def _worker_row(step: Step) -> Iterator[str]:
    if step.args.get("to") != "active":  # a row that is put to active ends nothing
        yield f"worker {step.args['worker']}"
        yield from (f"pod {pod}" for pod in [step.args.get("pod")] if pod)


def _pod(step: Step) -> Iterator[str]:
    yield f"pod {step.args['pod']}"
    yield f"worker {step.args['worker']}"


def _run(step: Step) -> Iterator[str]:
    yield run(step.args["run"], step.args["backend"])


def _gone(step: Step) -> Iterator[str]:
    yield node(step.args["node"])
    for one in step.args.get("gone", ()):
        yield process(one["pid"], step.args["node"])


ENDS: dict[str, Callable[[Step], Iterator[str]]] = {
    "terminate-processes": _processes,
    "stop-supervisor": _pid,
    "stop-unit": _by("unit", "unit"),
    "restart-job": _by("job", "job"),
    "reset-node-jobs": _gone,
    "restart-container": _by("container", "container"),
    "recreate-container": _by("id", "container"),
    "restart-application": _by("id", "container"),
    "remove-kept-container": _by("id", "container"),
    "reset-gpu": _by("uuid", "gpu"),
    "stop-ray-job": _by("submission_id", "job"),
    "restart-raylet": _by("node", "node"),
    "delete-run-keys": _run,
    "terminate-pod": _pod,
    "stop-pod": _pod,
    "mark-worker-row": _worker_row,
}
"""Every action kind that ends, stops or starts anew something that runs, and how its arguments name that."""

SPARES: frozenset[str] = frozenset(
    (
        "continue-processes", "quarantine-node", "remount-fuse", "start-engine", "free-engine-space", "copy-checkpoint",
        "create-checkpoint-folder",
        "repoint-latest", "quarantine-checkpoint", "restore-folder-mode", "restore-archived", "abort-upload", "prune-checkpoints",
        "put-back-checkpoint", "finish-deletion", "restore-run-keys", "probe-rendezvous", "start-etcd", "defragment-etcd",
        "normalise-key", "normalise-secret", "restrict-key-mode", "remove-known-host", "repair-ssh-path", "add-public-key",
        "start-worker", "start-worker-unverified", "set-railway-variable",
    )
)  # fmt: skip
"""The others: nothing that runs is ended by them. A kind that stands in neither table fails a test."""

