"""Every runbook as a Prefect flow. A flow is made when it is asked for by name, so that a run reads one runbook only."""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State

from flows.standard import standard_flow as _standard_flow  # public names of this module are flows
from runbooks.core import knowledge as _knowledge

ROWS: dict[str, tuple[str, str]] = {  # slug -> what the UI says of it, and of its target; without a row, what runbook.yaml says
    "zombie-gpu": (
        "Finds out why a node's GPUs do nothing, or only look busy.",
        "node name in the fleet file; `local` is this machine.",
    ),
    "container-death": (
        "A container died, or its application is gone: judges host, container and application in order and "
        "restores them.",
        "node that the fleet file's `containers` name; option container=NAME where there are several.",
    ),
    "ray-job": (
        "A Ray job looks stuck, or failed without a reason: finds the first real error, the phase of the start, and who "
        "holds the resources.",
        "node that reaches the Ray head of the fleet file; option job=SUBMISSION-ID.",
    ),
    "checkpoint-fallback": (
        "After a crash: finds the checkpoint to resume from, with proof, in memory, on disk and in S3. Repairs what blocks "
        "the next save.",
        "node of the fleet file's `checkpoints`.",
    ),
    "memory-pressure": (
        "Out of memory on GPU or host: finds who holds it, and what to change in the given configuration.",
        "node name in the fleet file.",
    ),
    "data-check": (
        "Training data cannot be read: checks JSONL and token indexes, and names file, line and offset.",
        "node that holds the data.",
    ),
    "host-limits": (
        "Finds the exhausted limit of a node: open files, threads, shared memory, inotify, locked memory. Also checks its clock"
        " and its name resolution.",
        "node of the fleet.",
    ),
    "stale-rendezvous": (
        "Elastic training does not start or restart: deletes dead state, never live state.",
        "name of a rendezvous in the fleet file, or NAME/RUN-ID, or a node that uses one.",
    ),
    "distributed-setup": (
        "Before a distributed launch: reads all nodes at once and the training configuration.",
        "name of a launch in the fleet file.",
    ),
    "ssh-auth-failure": (
        "Permission denied, refused, timed out: finds the stage at which a log-in stops, and the one thing that is wrong.",
        "node name in the fleet file.",
    ),
    "stuck-spawning": (
        "A worker does not start: joins database row, pod, network and the inside of the pod into one cause.",
        "`worker/<id>`, with the id of the workers' table, or `workers`: all that exceed their limit in spawning.",
    ),
}


def __getattr__(name: str) -> Flow[..., State[Any]]:
    """The runbook's flow. Raises AttributeError if there is none."""
    slug = name.replace("_", "-")
    if "-" in name or slug not in _knowledge.runbook_slugs():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made: Flow[..., State[Any]] = globals().setdefault(name, _standard_flow(slug, *(ROWS.get(slug) or _words(slug))))
    return made


def _words(slug: str) -> tuple[str, str]:
    book = _knowledge.load_runbook(slug)
    return " ".join(book.summary.split()), f"{' '.join(book.target.split())}."
