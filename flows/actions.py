"""The table of everything that can be changed: action kind, how much it can hurt, and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass

from runbooks.core.plan import Risk, Step
from tasks.context import ActResult, Context
from tasks.remediation.checkpoints import (
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
from tasks.remediation.containers import restart_container
from tasks.remediation.containers_recreate import recreate_container, remove_kept_container, restart_application
from tasks.remediation.docker_daemon import free_engine_space, start_engine, stop_supervisor, stop_unit
from tasks.remediation.gpus import reset_gpu
from tasks.remediation.jobs import restart_job
from tasks.remediation.leader import reset_node_jobs
from tasks.remediation.mounts import remount_fuse
from tasks.remediation.pods import start_worker, stop_pod, terminate_pod
from tasks.remediation.processes import terminate_processes
from tasks.remediation.quarantine import quarantine_node
from tasks.remediation.railway_variables import set_railway_variable
from tasks.remediation.ray import restart_raylet, stop_ray_job
from tasks.remediation.rendezvous import defragment_etcd, delete_run_keys, probe_rendezvous, start_etcd
from tasks.remediation.rendezvous_restore import restore_run_keys
from tasks.remediation.ssh_keys import (
    add_public_key,
    normalise_key,
    normalise_secret,
    remove_known_host,
    repair_ssh_path,
    restrict_key_mode,
)
from tasks.remediation.worker_rows import mark_worker_row


@dataclass(frozen=True)
class Action:
    """One kind of change."""

    risk: Risk
    act: Callable[[Step, Context], ActResult]
    proves: bool = False  # it is the proof that an earlier step of its plan helped: where it fails, nothing is fixed


ACTIONS: dict[str, Action] = {
    "terminate-processes": Action(Risk.DISRUPTIVE, terminate_processes),
    "restart-job": Action(Risk.DISRUPTIVE, restart_job),
    "restart-container": Action(Risk.DISRUPTIVE, restart_container),
    "reset-node-jobs": Action(Risk.DISRUPTIVE, reset_node_jobs),
    "reset-gpu": Action(Risk.DESTRUCTIVE, reset_gpu),
    "quarantine-node": Action(Risk.DESTRUCTIVE, quarantine_node),
    "recreate-container": Action(Risk.DISRUPTIVE, recreate_container),
    "restart-application": Action(Risk.DISRUPTIVE, restart_application),
    "remove-kept-container": Action(Risk.DESTRUCTIVE, remove_kept_container),
    "remount-fuse": Action(Risk.DISRUPTIVE, remount_fuse),
    "start-engine": Action(Risk.DISRUPTIVE, start_engine),
    "free-engine-space": Action(Risk.DISRUPTIVE, free_engine_space),
    "stop-supervisor": Action(Risk.DESTRUCTIVE, stop_supervisor),  # somebody else's: only a person says which one stays
    "stop-unit": Action(Risk.DESTRUCTIVE, stop_unit),
    "stop-ray-job": Action(Risk.DISRUPTIVE, stop_ray_job),
    "restart-raylet": Action(Risk.DISRUPTIVE, restart_raylet),
    "copy-checkpoint": Action(Risk.SAFE, copy_checkpoint),
    "create-checkpoint-folder": Action(Risk.SAFE, create_checkpoint_folder),
    "repoint-latest": Action(Risk.DISRUPTIVE, repoint_latest),
    "quarantine-checkpoint": Action(Risk.DISRUPTIVE, quarantine_checkpoint),
    "restore-folder-mode": Action(Risk.DISRUPTIVE, restore_folder_mode),
    "restore-archived": Action(Risk.DESTRUCTIVE, restore_archived),
    "abort-upload": Action(Risk.DESTRUCTIVE, abort_upload),
    "prune-checkpoints": Action(Risk.DESTRUCTIVE, prune_checkpoints),
    "put-back-checkpoint": Action(Risk.DISRUPTIVE, put_back_checkpoint),
    "finish-deletion": Action(Risk.DESTRUCTIVE, finish_deletion),
    "delete-run-keys": Action(Risk.DISRUPTIVE, delete_run_keys),
    "restore-run-keys": Action(Risk.DESTRUCTIVE, restore_run_keys),  # only a person says that a deletion was a mistake
    "probe-rendezvous": Action(Risk.DISRUPTIVE, probe_rendezvous, proves=True),
    "start-etcd": Action(Risk.DISRUPTIVE, start_etcd),
    "defragment-etcd": Action(Risk.DESTRUCTIVE, defragment_etcd),
    "normalise-key": Action(Risk.DISRUPTIVE, normalise_key),
    "normalise-secret": Action(Risk.DISRUPTIVE, normalise_secret),
    "restrict-key-mode": Action(Risk.SAFE, restrict_key_mode),
    "remove-known-host": Action(Risk.DISRUPTIVE, remove_known_host),
    "repair-ssh-path": Action(Risk.DISRUPTIVE, repair_ssh_path),
    "add-public-key": Action(Risk.DISRUPTIVE, add_public_key),
    "start-worker": Action(Risk.DISRUPTIVE, start_worker),
    "start-worker-unverified": Action(
        Risk.DESTRUCTIVE, start_worker
    ),  # its host key was first seen: a person allows it
    "set-railway-variable": Action(Risk.DISRUPTIVE, set_railway_variable),
    "mark-worker-row": Action(Risk.DISRUPTIVE, mark_worker_row),
    "terminate-pod": Action(Risk.DESTRUCTIVE, terminate_pod),
    "stop-pod": Action(Risk.DESTRUCTIVE, stop_pod),  # what is on its container disk is lost
}
"""Explicit: an action is possible only if it stands here."""


def risks() -> dict[str, Risk]:
    """Risk of every kind this engine can do."""
    return {kind: action.risk for kind, action in ACTIONS.items()}
