"""What is printed names exactly what is carried out: in every plan of every situation, each target of a step's arguments
stands in its commands, and no process, container or file stands there that the arguments do not name."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest

from runbooks.core.kinds import KINDS
from runbooks.core.plan import Step
from tests.runbooks.every import Situation, situations

TARGETS: dict[str, tuple[str, ...]] = {
    "abort-upload": ("key", "upload_id"),
    "add-public-key": ("path", "uid", "gid"),
    "continue-processes": ("processes.pid", "processes.start_ticks"),
    "copy-checkpoint": ("name",),
    "create-checkpoint-folder": ("path",),
    "defragment-etcd": ("endpoint",),
    "delete-run-keys": ("endpoint", "keys", "guard"),
    "finish-deletion": ("name",),
    "free-engine-space": ("engine",),
    "mark-worker-row": ("worker", "from", "to", "pod", "heartbeat"),
    "recover-pod-id": ("worker", "from", "pod"),
    "normalise-key": ("path", "aside"),
    "prune-checkpoints": ("delete.name",),
    "put-back-checkpoint": ("name", "was"),
    "quarantine-checkpoint": ("name", "to"),
    "quarantine-node": ("node", "reason", "path"),
    "recreate-container": ("id", "name", "kept", "socket", "engine", "setup", "mounts", "start"),
    "remount-fuse": ("path", "mount", "id"),
    "remove-kept-container": ("id",),
    "remove-known-host": ("path", "line", "aside"),
    "repair-ssh-path": ("path",),
    "repoint-latest": ("pointer", "text"),
    "reset-gpu": ("uuid",),
    "reset-node-jobs": ("node", "leader_url"),
    "restart-application": ("id", "engine", "match", "start"),
    "restart-container": ("container",),
    "restart-job": ("argv",),
    "restart-raylet": ("start",),
    "restore-archived": ("name", "days", "retrieval"),
    "restore-folder-mode": ("path", "to"),
    "restore-run-keys": ("file",),
    "redeploy-service": ("deployment",),
    "restart-service": ("deployment",),
    "restrict-key-mode": ("path",),
    "set-railway-variable": ("name",),
    "start-container": ("id", "engine", "setup", "mounts", "start"),
    "start-engine": ("start",),
    "start-etcd": ("command",),
    "start-worker": ("argv", "boot_id"),
    "start-worker-unverified": ("argv", "boot_id"),
    "stop-pod": ("pod",),
    "stop-ray-job": ("dashboard", "submission_id", "state"),
    "stop-supervisor": ("pid", "start_ticks"),
    "stop-unit": ("unit", "life"),
    "terminate-pod": ("pod",),
    "terminate-processes": ("processes.pid", "processes.start_ticks", "grace_s"),
}
COMPARED = {  # what only the action compares with the world before it acts, or counts afterwards: no target
    "actor_id", "backend", "boot_id", "bus_id", "cgroup", "command", "delete.elsewhere", "delete.identity", "delete.size", "detached",
    "device", "digest", "endpoint", "expect", "expect_freed_bytes", "fingerprint", "from", "gid", "gone", "gpu_uuids", "hash", "head",
    "home", "identity", "inode", "job", "keep", "keys", "kept", "last_cycle", "life", "machine", "match", "mode", "moving", "node",
    "older_than_s", "parts", "pidfile", "pod", "processes.command", "processes.uid", "rendezvous", "run", "running", "setup_timeout_s",
    "sid", "size", "sleep", "started_at", "status", "step", "tasks", "to_gid", "to_mode", "to_uid", "type", "uid", "vouched",
    "was", "where",
    "rows", "rows.pod", "rows.status", "rows.worker",
    "worker", "engine", "socket", "name", "from_tier", "to_tier", "tier", "parent",
}  # fmt: skip
NO_SITUATION = {"probe-rendezvous", "normalise-secret"}  # their tests in the table of printed.py show what they name
MODES = {("restore-folder-mode", "to")}
CONTAINERS = (
    "recreate-container", "start-container", "restart-application", "restart-container", "remount-fuse", "remove-kept-container",
)  # fmt: skip
PID = re.compile(r"kill -[A-Z]+ (\d+)|/proc/(\d+)/")
CONTAINER = re.compile(r"(?<![\w-])[0-9a-f]{12,64}(?![\w-])")


@cache
def steps() -> tuple[tuple[Situation, Step], ...]:
    """Of every plan of every situation."""
    return tuple((case, s) for case in situations() for p in case.judge().plans for s in p.steps)


def leaves(value: Any) -> Iterator[str]:
    """Every text and number in it; what is empty or only said yes or no to names nothing."""
    if isinstance(value, dict | list | tuple):
        for x in value.values() if isinstance(value, dict) else value:
            yield from leaves(x)
    elif value not in (None, "") and not isinstance(value, bool):
        yield str(value)


def at(args: Any, path: str) -> Any:
    """The value at `a.b`; of a list, that of each of its entries."""
    for part in path.split("."):
        args = [x[part] for x in args] if isinstance(args, list) else args.get(part)
    return args


def paths(args: dict[str, Any]) -> Iterator[str]:
    """`a` or, for lists of objects, `a.b`."""
    for key, value in args.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (f"{key}.{k}" for k in value[0])
        else:
            yield key


def named(step: Step) -> list[str]:
    """The targets as they are typed: a mode in octal, a container by the beginning of its id."""
    found = []
    for path in TARGETS[step.kind]:
        for value in leaves(at(step.args, path)):
            typed = f"{int(value):04o}" if (step.kind, path) in MODES else value
            found.append(typed[:12] if CONTAINER.fullmatch(typed) and path in ("id", "container") else typed)
    return found


def missing(step: Step) -> list[str]:
    """Targets that no command names."""
    text = unquote("\n".join(step.commands)).replace("'\"'\"'", "'")
    return [t for t in named(step) if not re.search(_word(unquote(t)), text)]


def _word(target: str) -> str:
    """It, and not as a part of a longer one; a number may be followed by a command of sed."""
    before = r"(?<!\w)" if re.match(r"\w", target) else ""
    after = "(?![0-9])" if target.isdigit() else "[0-9a-f]*" if CONTAINER.fullmatch(target) else r"(?!\w)"
    return before + re.escape(target) + (after if re.search(r"\w$", target) else "")


def strangers(step: Step) -> set[str]:
    """Processes and containers that a command names and the arguments do not."""
    text = "\n".join(step.commands)
    pids = {a or b for a, b in PID.findall(text)}
    boxes = set(CONTAINER.findall(text)) if step.kind in CONTAINERS else set()
    known = set(leaves(step.args))
    return {p for p in pids if p not in known} | {b for b in boxes if not any(k.startswith(b) for k in known)}


def test_every_kind_says_what_it_names() -> None:
    ours = {k for k in KINDS if not k.startswith("toy-")}  # other tests bring theirs along
    assert {*TARGETS, *NO_SITUATION} == ours
    assert {s.kind for _, s in steps()} == set(TARGETS), "each is seen in a situation"


def test_every_argument_is_a_target_or_only_compared() -> None:
    for case, step in steps():
        covered = {*TARGETS[step.kind], *COMPARED}
        left = [p for p in paths(step.args) if p not in covered and p.split(".")[0] not in covered]
        assert not left, (case.title, step.kind, left)


def test_each_target_is_printed_and_nothing_else() -> None:
    for case, step in steps():
        assert missing(step) == [], (case.runbook, case.title, step.kind, step.commands)
        assert strangers(step) == set(), (case.runbook, case.title, step.kind, step.commands)


def others(step: Step) -> Iterable[Step]:
    """The step with each of its targets in turn another one, in its arguments only."""
    for path in TARGETS[step.kind]:
        head, _, tail = path.partition(".")
        value = step.args.get(head)
        if not list(leaves(value)):
            continue
        changed = [{**x, tail: _other(x[tail])} for x in value or []] if tail else _other(value)
        yield step.model_copy(update={"args": step.args | {head: changed}})


def _other(value: Any) -> Any:
    if isinstance(value, list):
        return [_other(x) for x in value]
    if isinstance(value, str):
        return ("b" if value.startswith("a") else "a") + value[1:] + "a"
    return value if value is None or isinstance(value, bool) else value + 1


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_another_target_in_the_arguments_is_seen(kind: str) -> None:
    step = next(s for _, s in steps() if s.kind == kind)
    for other in others(step):
        assert missing(other), other.args
