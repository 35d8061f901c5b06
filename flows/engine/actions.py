"""What does each kind of action, and how long that may take; everything else about a kind stands in runbooks/core/kinds.py."""

from collections.abc import Callable
from dataclasses import dataclass

from runbooks.core.args.checkpoints import CopyCheckpoint
from runbooks.core.args.containers import RecreateContainer, StartContainer
from runbooks.core.args.nodes import TerminateProcesses
from runbooks.core.args.rendezvous import DeleteRunKeys
from runbooks.core.checkpoints import TierKind
from runbooks.core.kinds import KINDS
from runbooks.core.plan import Risk, Step
from runbooks.rendezvous.saved import MOST_KEYS, work_s
from tasks.arguments import takes
from tasks.checkpoint.act_node import (
    SLOWEST,
    abort_upload,
    copy_checkpoint,
    create_checkpoint_folder,
    finish_deletion,
    prune_checkpoints,
    put_back_checkpoint,
    quarantine_checkpoint,
    repoint_latest,
    restore_archived,
    restore_folder_mode,
)
from tasks.container.act_engine import free_engine_space, start_engine, stop_supervisor, stop_unit
from tasks.container.act_mounts import remount_fuse
from tasks.container.act_recreate import (
    inside_s,
    recreate_container,
    recreation_wait,
    remove_kept_container,
    restart_application,
)
from tasks.container.act_restart import restart_container
from tasks.container.act_start import start_container
from tasks.container.at_work import watch_s
from tasks.context import ActionResult, Context
from tasks.gpu.act_jobs import restart_job
from tasks.gpu.act_leader import reset_node_jobs
from tasks.gpu.act_processes import continue_processes, terminate_processes
from tasks.gpu.act_quarantine import quarantine_node
from tasks.gpu.act_reset import reset_gpu
from tasks.orchestrator.act_rows import recover_pod_id
from tasks.ray.act import restart_raylet, stop_ray_job
from tasks.rendezvous.act import defragment_etcd, delete_run_keys, probe_rendezvous, start_etcd
from tasks.rendezvous.act_restore import restore_run_keys
from tasks.spawning.act_pods import start_worker, start_worker_unverified, stop_pod, terminate_pod
from tasks.spawning.act_rows import mark_worker_row
from tasks.spawning.act_service import redeploy_service, restart_service
from tasks.spawning.act_variables import set_railway_variable
from tasks.ssh.act_keys import (
    add_public_key,
    normalise_key,
    normalise_secret,
    remove_known_host,
    repair_ssh_path,
    restrict_key_mode,
)

Deadline = Callable[[Step, Context], float]
UNKNOWN_S = 900.0  # longer than any command of a kind that does not say


@dataclass(frozen=True)
class Action:
    """One kind of change.

    `within_s`: what it was begun for is over after so long, even where its process is gone and nobody saw the end: the
    time-outs of all its commands and reads together, each of which ends on the node by itself.
    """

    do: Callable[[Step, Context], ActionResult]
    proves: bool = False  # it is the proof that an earlier step of its plan helped: where it fails, nothing is fixed
    within_s: float | Deadline = UNKNOWN_S
    wait_s: Callable[[Step, Context], tuple[float, str]] | None = None  # (seconds to wait before it begins, why)

    def deadline_s(self, step: Step, context: Context) -> float:
        """Seconds after which nothing of this step runs any more."""
        return self.within_s(step, context) if callable(self.within_s) else self.within_s


@takes(TerminateProcesses)
def _terminating(args: TerminateProcesses, _context: Context) -> float:
    return args.grace_s + 180  # its command, two reads of the GPUs, memory that comes back


@takes(RecreateContainer)
def _recreating(args: RecreateContainer, context: Context) -> float:
    return 90 + inside_s(args) + _join_s(context) + watch_s(context)


@takes(StartContainer)
def _starting(args: StartContainer, context: Context) -> float:
    return 90 + inside_s(args) + _join_s(context)


def _restarting(_step: Step, context: Context) -> float:
    return 220 + context.limit("window_s", "zombie-gpu")  # four reads, its processes watched for so long, its command


def _starting_application(_step: Step, context: Context) -> float:
    return _join_s(context) + watch_s(context)


def _joining(_step: Step, context: Context) -> float:
    return _join_s(context)


def _join_s(context: Context) -> float:
    return 180 + context.limit("join_s", "container-death")  # its command, and the head asked twice


@takes(CopyCheckpoint)
def _copying(args: CopyCheckpoint, context: Context) -> float:
    size, config = args.size, context.fleet.checkpoints
    if config and any(t.name == args.to_tier and t.kind is not TierKind.S3 for t in config.tiers):
        return 180 + 4 * size / SLOWEST
    return 3600 + size / 1e6  # the slowest that an upload may be, and many small files


@takes(DeleteRunKeys)
def _deleting(args: DeleteRunKeys, _context: Context) -> float:
    return 120 + work_s(len(args.keys) or MOST_KEYS)  # its reads, and one command for all keys


def _probing(_step: Step, context: Context) -> float:
    return 300 + max((r.probe.timeout_s for r in context.fleet.rendezvous if r.probe), default=0)


ACTIONS: dict[str, Action] = {
    "continue-processes": Action(continue_processes, within_s=90),
    "terminate-processes": Action(terminate_processes, within_s=_terminating),
    "restart-job": Action(restart_job, within_s=90),
    "restart-container": Action(restart_container, within_s=_restarting),
    "reset-node-jobs": Action(reset_node_jobs, within_s=150),
    "reset-gpu": Action(reset_gpu, within_s=260),
    "quarantine-node": Action(quarantine_node, within_s=60),
    "recreate-container": Action(recreate_container, within_s=_recreating, wait_s=recreation_wait),
    "start-container": Action(start_container, within_s=_starting),
    "restart-application": Action(restart_application, within_s=_starting_application),
    "remove-kept-container": Action(remove_kept_container, within_s=90),
    "remount-fuse": Action(remount_fuse, within_s=180),
    "start-engine": Action(start_engine, within_s=200),
    "free-engine-space": Action(free_engine_space, within_s=640),
    "stop-supervisor": Action(stop_supervisor, within_s=60),  # somebody else's: only a person says which one stays
    "stop-unit": Action(stop_unit, within_s=270),
    "stop-ray-job": Action(stop_ray_job, within_s=90),
    "restart-raylet": Action(restart_raylet, within_s=_joining),
    "copy-checkpoint": Action(copy_checkpoint, within_s=_copying),
    "create-checkpoint-folder": Action(create_checkpoint_folder, within_s=90),
    "repoint-latest": Action(repoint_latest, within_s=120),
    "quarantine-checkpoint": Action(quarantine_checkpoint, within_s=90),
    "restore-folder-mode": Action(restore_folder_mode, within_s=90),
    "restore-archived": Action(restore_archived, within_s=600),
    "abort-upload": Action(abort_upload, within_s=300),
    "prune-checkpoints": Action(prune_checkpoints, within_s=1800),
    "put-back-checkpoint": Action(put_back_checkpoint, within_s=90),
    "finish-deletion": Action(finish_deletion, within_s=90),
    "delete-run-keys": Action(delete_run_keys, within_s=_deleting),
    "restore-run-keys": Action(restore_run_keys, within_s=120 + work_s(MOST_KEYS)),  # only a person says that a deletion was a mistake
    "probe-rendezvous": Action(probe_rendezvous, proves=True, within_s=_probing),
    "start-etcd": Action(start_etcd, within_s=180),
    "defragment-etcd": Action(defragment_etcd, within_s=360),
    "normalise-key": Action(normalise_key, within_s=90),
    "normalise-secret": Action(normalise_secret, within_s=90),
    "restrict-key-mode": Action(restrict_key_mode, within_s=90),
    "remove-known-host": Action(remove_known_host, within_s=90),
    "repair-ssh-path": Action(repair_ssh_path, within_s=90),
    "add-public-key": Action(add_public_key, within_s=90),
    "start-worker": Action(start_worker, within_s=300),
    # its host key was first seen: a person allows it
    "start-worker-unverified": Action(start_worker_unverified, within_s=300),
    "set-railway-variable": Action(set_railway_variable, within_s=300),
    "restart-service": Action(restart_service, within_s=120),
    "redeploy-service": Action(redeploy_service, within_s=120),
    "mark-worker-row": Action(mark_worker_row, within_s=120),
    "recover-pod-id": Action(recover_pod_id, within_s=300),
    "terminate-pod": Action(terminate_pod, within_s=300),
    "stop-pod": Action(stop_pod, within_s=300),  # what is on its container disk is lost
}
"""Explicit: an action is possible only if it stands here and in KINDS."""


def risks() -> dict[str, Risk]:
    """Risk of every kind this engine can do."""
    return {kind: KINDS[kind].risk for kind in ACTIONS}
