"""Every runbook as a Prefect flow: one row each. A flow is made when it is asked for by name, so that a run reads one runbook only."""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State

from flows.standard import standard_flow

ROWS: dict[str, tuple[str, str]] = {  # slug -> what the UI says of it, and of its target
    "zombie-gpu": (
        "Busy on paper, not working: finds out why a node's GPUs do nothing, or only look busy.",
        "node name in the fleet file; `local` is this machine.",
    ),
    "container-death": (
        "A container died, or lives without its application: judges host, container and application in order and "
        "restores them.",
        "node that the fleet file's `containers` name; option container=NAME where there are several.",
    ),
    "ray-job": (
        "A Ray job looks stuck, or failed without saying why: the first real error, the phase of the start, who "
        "holds the resources.",
        "node that reaches the Ray head of the fleet file; option job=SUBMISSION-ID.",
    ),
    "checkpoint-fallback": (
        "After a crash: which checkpoint to resume from, with proof, over memory, disk and S3; repairs what keeps "
        "the next save from working. Option: log.",
        "node of the fleet file's `checkpoints`.",
    ),
    "memory-pressure": (
        "Out of memory on GPU or host: who holds it, and what to change for the given configuration. Changes "
        "nothing. Options: log, batch, gpus, accumulation, checkpointing.",
        "node name in the fleet file.",
    ),
    "data-check": (
        "Training data that does not read: JSONL and token indexes, with file, line and offset. Changes nothing. "
        "Options: data, text_key, vocabulary, log.",
        "node that holds the data.",
    ),
    "host-limits": (
        "What of a node is at its limit: open files, threads, shared memory, inotify, locked memory; its clock and"
        " its names. Changes nothing. Option: names.",
        "node of the fleet.",
    ),
    "stale-rendezvous": (
        "Elastic training does not start or restart: clears what is dead, never what is alive. Options: symptom, "
        "run.",
        "name of a rendezvous in the fleet file, or NAME/RUN-ID, or a node that asks for one.",
    ),
    "distributed-setup": (
        "Before a distributed launch: reads all nodes at once and the training configuration. Changes nothing.",
        "name of a launch in the fleet file.",
    ),
    "ssh-auth-failure": (
        "Permission denied, refused, timed out: at which stage a log-in stops, and the one thing that is wrong.",
        "node name in the fleet file.",
    ),
    "stuck-spawning": (
        "A worker that does not come up: database row, pod, network and inside joined into one cause.",
        "`worker/<id>`, with the id of the workers' table, or `workers`: all past their limit in spawning.",
    ),
}


def __getattr__(name: str) -> Flow[..., State[Any]]:
    """The runbook's flow. Raises AttributeError if there is none."""
    slug = name.replace("_", "-")
    if "-" in name or slug not in ROWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made: Flow[..., State[Any]] = globals().setdefault(name, standard_flow(slug, *ROWS[slug]))
    return made
