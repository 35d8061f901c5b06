"""Every kind of action, once: how much it can hurt and take away, what it changes, how it is proven and undone, and what it ends.

`gpu-runbooks list --actions` and the runbooks' pages show it; the engine reads risks here, and beside who is at work what a
step ends. Which function does it and how long that may take stands in flows/engine/actions.py; which runbook plans it, in its
runbook.yaml. Besides what is said here, each plan is proven by reading and judging everything again.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from runbooks.core.members import (
    ends_by,
    ends_gone,
    ends_orchestrator,
    ends_pid,
    ends_pod,
    ends_processes,
    ends_run,
    ends_worker_row,
)
from runbooks.core.plan import Risk, Step
from runbooks.core.undo import (
    NO_FACTS,
    Commands,
    Facts,
    in_words,
    job_ended,
    nothing_to_type,
    stopped_again,
    typed,
    unit_started,
    unmounted,
)


class Harsh(IntEnum):
    """What is gone afterwards, the worst that a kind can do."""

    NOTHING = 0
    A_RETRY = 1  # a cache, a count, a connection: had again by itself or by one line
    UNSAVED = 2  # a process's work since its last save
    A_PLACE = 3  # a pod's GPUs or a node's capacity, and what was beside its volumes
    DATA = 4


class ActionKind(NamedTuple):
    """One row. `undone`: in words, with `{facts}` of the step; `undo`: the commands. `ends`: None where nothing that runs is ended,
    stopped or started anew; else how a step's arguments name it."""

    risk: Risk
    harsh: Harsh
    changes: str
    proven: str
    undone: str
    ends: Callable[[Step], Iterator[str]] | None
    undo: Commands = nothing_to_type


SAFE, DISRUPTIVE, DESTRUCTIVE, SPARES = Risk.SAFE, Risk.DISRUPTIVE, Risk.DESTRUCTIVE, None
CANNOT = "it cannot be undone"
STARTS_WORKER = (
    "starts the worker's process in its pod, under a lock file",
    "the process runs and the worker's row reports",
    "end the worker's process, pid {pid}, in pod {pod}",
)

KINDS: dict[str, ActionKind] = {
    # GPUs and processes
    "continue-processes": ActionKind(  # nothing is lost, and yet somebody may have stopped it on purpose
        DISRUPTIVE, Harsh.NOTHING,
        "continues exactly the listed stopped processes (SIGCONT)", "each of them runs, and the report says what it did",
        "stop them again (SIGSTOP)", SPARES, stopped_again),
    "terminate-processes": ActionKind(
        DISRUPTIVE, Harsh.UNSAVED, "ends exactly the listed processes: TERM, then KILL",
        "the processes are gone and the GPU memory or port that they held is free",
        "it cannot be undone; restart the job from its last checkpoint", ends_processes),
    "restart-job": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "runs the restart command that the fleet file names for the job", "the job's process runs and makes progress",
        "end the job {job} that was started", ends_by("job", "job"), job_ended),
    "reset-node-jobs": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "sets the leader's count of jobs on one node to zero", "the leader counts no job on that node",
        "it cannot be undone; the leader counts the next job that starts", ends_gone),
    "reset-gpu": ActionKind(
        DESTRUCTIVE, Harsh.UNSAVED,
        "resets one GPU that no process uses", "the GPU answers and asks for no recovery", CANNOT, ends_by("uuid", "gpu")),
    "quarantine-node": ActionKind(
        DESTRUCTIVE, Harsh.A_PLACE, "writes a mark file on the node, so that people and schedulers that read it send no work there",
        "the mark is on the node", "remove the mark file {path} on {node}", SPARES, typed("rm {path}")),
    # containers
    "restart-container": ActionKind(
        DISRUPTIVE, Harsh.UNSAVED, "restarts one container by its id", "it runs with a newer start time and the fault is gone",
        CANNOT, ends_by("container", "container")),
    "start-container": ActionKind(  # nothing is lost; what the fleet file names runs in it once more
        DISRUPTIVE, Harsh.NOTHING, "starts a container that has ended, by its id, and runs the fleet file's commands in it",
        "the same container runs with a newer start time, its application runs and has joined where it belongs", "stop it again", SPARES,
        typed("{engine} stop {id}")),
    "recreate-container": ActionKind(
        DISRUPTIVE, Harsh.UNSAVED, "creates a new container with the configuration of a dead one, and keeps the old one under another name",
        "a container with a new id runs, with its mounts, and has joined where it belongs",
        "remove the new container and start the kept one, {kept}", ends_by("id", "container"),
        typed("{engine} stop {new_id}", "{engine} rm {new_id}", "{engine} rename {id} {name}", "{engine} start {id}")),
    "restart-application": ActionKind(
        DISRUPTIVE, Harsh.UNSAVED, "ends what is left of the application in a running container and starts it again",
        "the application runs and has joined where it belongs", CANNOT, ends_by("id", "container")),
    "remove-kept-container": ActionKind(
        DESTRUCTIVE, Harsh.DATA, "removes a container that a recreation kept; its volumes stay", "the container is gone", CANNOT,
        ends_by("id", "container")),
    "remount-fuse": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "unmounts a FUSE mount whose process is gone and mounts it again", "the mount can be read",
        "unmount it", SPARES, unmounted),
    "start-engine": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "starts the container engine's daemon, whose process is gone", "the engine answers", "stop the daemon", SPARES,
        typed('kill "$(cat {pidfile})"')),
    "free-engine-space": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY,
        "removes images without a name and the build cache; no volume, container or named image", "there is space again",
        "it cannot be undone; images can be pulled or built again", SPARES),
    "stop-supervisor": ActionKind(
        DESTRUCTIVE, Harsh.UNSAVED, "ends an old retry loop that acts on the same container, by SIGTERM", "the loop's process is gone",
        "start the script again: {command}", ends_pid),
    "stop-unit": ActionKind(
        DESTRUCTIVE, Harsh.UNSAVED, "stops a systemd unit that restarts the container", "the unit is not active",
        "start the unit again", ends_by("unit", "unit"), unit_started),
    # Ray
    "stop-ray-job": ActionKind(
        DISRUPTIVE, Harsh.UNSAVED,
        "stops a Ray job by its submission id, through the head's dashboard", "its supervisor is gone and what it held is free",
        "submit the job {submission_id} again", ends_by("submission_id", "job")),
    "restart-raylet": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "starts the raylet of a node where none runs, by the fleet file's command", "the node is ALIVE with a new node id",
        "stop that raylet on {node}", ends_by("node", "node")),
    # checkpoints
    "copy-checkpoint": ActionKind(
        SAFE, Harsh.NOTHING, "copies one checkpoint to another tier, replacing nothing", "the copy is whole when it is read back",
        "delete the copy: {copy}", SPARES),
    "create-checkpoint-folder": ActionKind(
        SAFE, Harsh.NOTHING,
        "creates the folder of a tier, on the device that was judged", "the folder is there, on that device",
        "remove it while it is empty", SPARES, typed("rmdir {path}")),
    "repoint-latest": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "points the `latest` pointer of a tier to another checkpoint", "the pointer names it",
        "write the old text back into {pointer} of {tier}: {lost}", SPARES),
    "quarantine-checkpoint": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "renames a checkpoint that was proven bad, so that no loader finds it", "no loader finds it", "rename it back", SPARES,
        typed("mv -nT {root}/{to} {root}/{name}")),
    "restore-folder-mode": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "gives the folder of a tier the mode that its owner needs", "its owner can write to it",
        "give it the mode back that it had", SPARES, typed("chmod {from:04o} {path}")),
    "restore-archived": ActionKind(
        DESTRUCTIVE, Harsh.A_RETRY, "asks the store to make an archived checkpoint readable for some days, which costs money",
        "the store confirms the restore; the checkpoint is readable hours later", CANNOT, SPARES),
    "abort-upload": ActionKind(
        DESTRUCTIVE, Harsh.DATA, "ends one unfinished upload and deletes its parts", "the upload is not listed", CANNOT, SPARES),
    "prune-checkpoints": ActionKind(
        DESTRUCTIVE, Harsh.DATA, "deletes the listed old checkpoints, while those that must stay are proven again",
        "the space is free and those that must stay are whole", CANNOT, SPARES),
    "put-back-checkpoint": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "renames a checkpoint back if its interrupted deletion deleted nothing", "a loader finds it",
        "rename it aside again", SPARES, typed("mv -nT {root}/{was} {root}/{name}")),
    "finish-deletion": ActionKind(
        DESTRUCTIVE, Harsh.DATA,
        "deletes the rest of a checkpoint after an interrupted deletion", "the rest is gone and its space is free", CANNOT, SPARES),
    # rendezvous
    "delete-run-keys": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "deletes the keys of one dead run from the rendezvous store; they are saved to a file first",
        "the keys are gone and the id can be used", "put them back with `gpu-runbooks restore`; they are saved in {file}", ends_run,
        typed("gpu-runbooks restore {file} --fleet {fleet}")),
    "restore-run-keys": ActionKind(
        DESTRUCTIVE, Harsh.A_RETRY, "restores keys that were saved before a deletion", "the keys are there as they were saved",
        "delete them again: `stale-rendezvous` offers it", SPARES,
        typed("gpu-runbooks run stale-rendezvous {rendezvous} --fleet {fleet} --mode approve")),
    "probe-rendezvous": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "runs the fleet file's short command with the same id on its nodes, then clears that run's keys",
        "a world of the expected size forms", "nothing is left to undo", SPARES),
    "start-etcd": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "starts the etcd that is down, by the fleet file's command, with the data it had", "etcd answers", "stop it on {node}", SPARES),
    "defragment-etcd": ActionKind(
        DESTRUCTIVE, Harsh.A_RETRY,
        "drops etcd's old v3 revisions, shrinks its file and switches its no-space alarm off; no key is touched",
        "the alarm is off and etcd accepts writes", CANNOT, SPARES),
    # SSH
    "normalise-key": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "writes a private key file with its line ends corrected; the key is the same", "ssh reads it and logs in",
        "move the kept file back", SPARES, typed("mv {aside} {path}")),
    "normalise-secret": ActionKind(
        DISRUPTIVE, Harsh.NOTHING,
        "writes a private key in its Prefect Secret block with its line ends corrected", "ssh reads it and logs in",
        "copy the kept block {aside} back into {block}", SPARES),
    "restrict-key-mode": ActionKind(
        SAFE, Harsh.NOTHING,
        "gives a private key file mode 600", "ssh accepts the key and logs in", "give it the mode back that it had", SPARES,
        typed("chmod {mode:04o} {path}")),
    "remove-known-host": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY,
        "comments out the known_hosts line of a host whose new key the fleet file confirms", "the host is trusted again",
        "move the kept file back", SPARES, typed("mv {aside} {path}")),
    "repair-ssh-path": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "corrects owner and mode of one path that leads to authorized_keys", "the key logs in",
        "give it the owner and mode back that it had", SPARES,
        typed("chown {uid}:{gid} {path}", "chmod {mode:04o} {path}")),
    "add-public-key": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "appends the configured public key to one authorized_keys file", "the key logs in",
        "delete the line that ends with added-by-gpu-runbooks from {path}", SPARES),
    # workers in pods
    "start-worker": ActionKind(DISRUPTIVE, Harsh.NOTHING, *STARTS_WORKER, SPARES),
    "start-worker-unverified": ActionKind(DESTRUCTIVE, Harsh.NOTHING, *STARTS_WORKER,
        SPARES),  # its host key was first seen: a person allows it
    "set-railway-variable": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "sets one variable of the orchestrator that contains no usable key; the platform deploys again",
        "the orchestrator has the key and its cycles continue", "delete the variable {name} on the platform",
        ends_orchestrator),
    "restart-service": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "restarts the orchestrator's deployment that is in service, without a new build",
        "its log shows new cycles", CANNOT, ends_orchestrator),
    "redeploy-service": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "deploys the orchestrator's newest deployment again, which was removed", "its log shows new cycles",
        "remove the new deployment on the platform", ends_orchestrator),
    "mark-worker-row": ActionKind(
        DISRUPTIVE, Harsh.A_RETRY, "sets the status of one worker's row, if the row is unchanged", "the row has that status",
        "set the previous status, {from}, in the row of worker {worker}", ends_worker_row),
    "recover-pod-id": ActionKind(
        DISRUPTIVE, Harsh.NOTHING, "writes the id of a pod into the row of its worker, if the row names none", "the row names the pod",
        "take the pod's id, {pod}, out of the row of worker {worker} again", SPARES),
    "terminate-pod": ActionKind(
        DESTRUCTIVE, Harsh.DATA, "ends one pod for good, with its disk", "the pod is gone", CANNOT, ends_pod),
    "stop-pod": ActionKind(
        DESTRUCTIVE, Harsh.A_PLACE, "stops one pod; its volume stays, its container disk is lost", "the pod is stopped",
        "start pod {pod} on the platform; its container disk stays lost", ends_pod),
}  # fmt: skip


def undo_of(step: Step, found: Facts = NO_FACTS) -> tuple[str, tuple[str, ...]]:
    """How that step is undone: in words, and the commands. `found`: what its action saw when it ran."""
    row, facts = KINDS[step.kind], step.args | {"owner": step.owner, "lost": step.loses} | dict(found)
    return in_words(row.undone, facts), tuple(row.undo(facts))
