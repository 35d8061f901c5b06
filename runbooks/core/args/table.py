"""Which arguments each kind of action takes, and why those of a step do not fit. Beside runbooks/core/kinds.py, which says the rest."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from runbooks.core.args import checkpoints, containers, nodes, rendezvous, service, ssh, workers
from runbooks.core.args.base import Args

ARGS: dict[str, type[Args]] = {
    "continue-processes": nodes.ContinueProcesses,
    "terminate-processes": nodes.TerminateProcesses,
    "restart-job": nodes.RestartJob,
    "reset-node-jobs": nodes.ResetNodeJobs,
    "reset-gpu": nodes.ResetGpu,
    "quarantine-node": nodes.QuarantineNode,
    "restart-container": containers.RestartContainer,
    "recreate-container": containers.RecreateContainer,
    "start-container": containers.StartContainer,
    "restart-application": containers.RestartApplication,
    "remove-kept-container": containers.RemoveKeptContainer,
    "remount-fuse": containers.RemountFuse,
    "start-engine": containers.StartEngine,
    "free-engine-space": containers.FreeEngineSpace,
    "stop-supervisor": containers.StopSupervisor,
    "stop-unit": containers.StopUnit,
    "stop-ray-job": nodes.StopRayJob,
    "restart-raylet": nodes.RestartRaylet,
    "copy-checkpoint": checkpoints.CopyCheckpoint,
    "create-checkpoint-folder": checkpoints.CreateCheckpointFolder,
    "repoint-latest": checkpoints.RepointLatest,
    "quarantine-checkpoint": checkpoints.QuarantineCheckpoint,
    "restore-folder-mode": checkpoints.RestoreFolderMode,
    "restore-archived": checkpoints.RestoreArchived,
    "abort-upload": checkpoints.AbortUpload,
    "prune-checkpoints": checkpoints.PruneCheckpoints,
    "put-back-checkpoint": checkpoints.InterruptedDeletion,
    "finish-deletion": checkpoints.InterruptedDeletion,
    "delete-run-keys": rendezvous.DeleteRunKeys,
    "restore-run-keys": rendezvous.RestoreRunKeys,
    "probe-rendezvous": rendezvous.ProbeRendezvous,
    "start-etcd": rendezvous.StartEtcd,
    "defragment-etcd": rendezvous.DefragmentEtcd,
    "normalise-key": ssh.NormaliseKey,
    "normalise-secret": ssh.NormaliseSecret,
    "restrict-key-mode": ssh.RestrictKeyMode,
    "remove-known-host": ssh.RemoveKnownHost,
    "repair-ssh-path": ssh.RepairSshPath,
    "add-public-key": ssh.AddPublicKey,
    "start-worker": workers.StartWorker,
    "start-worker-unverified": workers.StartWorker,
    "set-railway-variable": workers.SetVariable,
    "restart-service": service.ServiceAsRead,
    "redeploy-service": service.ServiceAsRead,
    "mark-worker-row": workers.MarkWorkerRow,
    "recover-pod-id": workers.RecoverPodId,
    "terminate-pod": workers.EndPod,
    "stop-pod": workers.EndPod,
}


def misfit(kind: str, args: Mapping[str, Any]) -> str:
    """Which arguments of a step are not those of its kind, in words without their values; "" if all are. A kind that
    nobody knows takes anything: the engine has no action for it."""
    model = ARGS.get(kind)
    if model is None:
        return ""
    try:
        model.model_validate(args)
    except ValidationError as e:
        return f"{kind}: {in_words(e)}"
    return ""


def in_words(error: ValidationError) -> str:
    """Each argument and what is wrong with it, without the value."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, f['loc'])) or 'arguments'}: {f['msg'].lower()}" for f in faults)
