"""A plan's commands, run as a person runs them: pasted from the report into a shell on the machine that the step names."""

import os
import subprocess
from collections.abc import Iterable, Mapping

from runbooks.core.plan import Step
from runbooks.core.show import commands_block

RUN = {  # action kind -> the test that runs its printed commands on the real fault and sees it gone
    "continue-processes": "tests/tasks/gpu/test_continue.py::test_what_is_printed_continues_it_and_nobody_else",
    "terminate-processes": "tests/tasks/gpu/test_printed.py::test_a_stopped_process_is_ended",
    "reset-gpu": "tests/tasks/gpu/test_printed.py::test_a_gpu_that_asks_for_it_is_reset",
    "restart-job": "tests/tasks/gpu/test_printed.py::test_a_job_is_started_and_stays",
    "restart-container": "tests/tasks/gpu/test_printed.py::test_a_container_is_restarted",
    "reset-node-jobs": "tests/tasks/gpu/test_printed.py::test_the_leaders_count_goes_to_0",
    "quarantine-node": "tests/tasks/gpu/test_printed.py::test_a_node_is_marked_once",
    "recreate-container": "tests/tasks/container/test_printed.py::test_a_dead_container_is_made_anew",
    "start-container": "tests/tasks/container/test_start.py::test_what_is_printed_starts_it",
    "restart-application": "tests/tasks/container/test_printed.py::test_an_application_is_started_again",
    "remove-kept-container": "tests/tasks/container/test_printed.py::test_a_kept_container_is_removed",
    "remount-fuse": "tests/tasks/container/test_printed.py::test_a_dead_mount_is_mounted_again",
    "start-engine": "tests/tasks/container/test_printed.py::test_an_engine_is_started",
    "free-engine-space": "tests/tasks/container/test_printed.py::test_nameless_images_go",
    "stop-supervisor": "tests/tasks/container/test_printed.py::test_an_old_loop_is_ended",
    "copy-checkpoint": "tests/tasks/checkpoint/test_printed.py::test_a_copy_arrives_whole",
    "create-checkpoint-folder": "tests/tasks/checkpoint/test_printed.py::test_a_missing_folder_is_made",
    "repoint-latest": "tests/tasks/checkpoint/test_printed.py::test_the_pointer_names_a_whole_one",
    "quarantine-checkpoint": "tests/tasks/checkpoint/test_printed.py::test_a_bad_one_is_renamed",
    "restore-folder-mode": "tests/tasks/checkpoint/test_printed.py::test_a_folders_mode_is_restored",
    "prune-checkpoints": "tests/tasks/checkpoint/test_printed.py::test_old_ones_go",
    "put-back-checkpoint": "tests/tasks/checkpoint/test_printed.py::test_an_untouched_one_gets_its_name_back",
    "finish-deletion": "tests/tasks/checkpoint/test_printed.py::test_the_rest_of_a_deletion_goes",
    "delete-run-keys": "tests/tasks/rendezvous/test_printed.py::test_a_dead_runs_keys_go",
    "start-etcd": "tests/tasks/rendezvous/test_printed.py::test_etcd_is_started_with_its_data",
    "defragment-etcd": "tests/tasks/rendezvous/test_printed.py::test_a_full_etcd_has_room_again",
    "normalise-key": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_the_log_in",
    "normalise-secret": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_a_block",
    "restrict-key-mode": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_the_log_in",
    "remove-known-host": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_the_log_in",
    "repair-ssh-path": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_the_log_in",
    "add-public-key": "tests/tasks/ssh/test_printed.py::test_what_is_printed_repairs_the_log_in",
    "mark-worker-row": "tests/tasks/spawning/test_printed.py::test_a_row_is_marked",
    "recover-pod-id": "tests/tasks/orchestrator/test_fleet_sync.py::test_the_printed_recovery_names_the_pod_once",
    "set-railway-variable": "tests/tasks/spawning/test_printed.py::test_a_variable_of_the_orchestrator_is_set",
    "restart-service": "tests/tasks/spawning/test_service.py::test_what_is_printed_starts_the_service",
    "redeploy-service": "tests/tasks/spawning/test_service.py::test_what_is_printed_starts_the_service",
    "terminate-pod": "tests/tasks/spawning/test_printed.py::test_a_pod_is_ended_or_stopped_by_its_id",
    "stop-pod": "tests/tasks/spawning/test_printed.py::test_a_pod_is_ended_or_stopped_by_its_id",
    "start-worker": "tests/tasks/spawning/test_printed.py::test_a_worker_is_started",
    "start-worker-unverified": "tests/tasks/spawning/test_printed.py::test_a_worker_is_started",
    "abort-upload": "tests/tasks/checkpoint/test_printed.py::test_an_old_upload_goes",
    "stop-unit": "tests/tasks/container/test_systemd_host.py::test_what_is_printed_stops_a_unit",
    "restore-archived": "tests/tasks/checkpoint/test_printed.py::test_an_archived_one_is_asked_for",
    "stop-ray-job": "tests/tasks/ray/test_printed.py::test_a_failed_jobs_supervisor_goes",
    "restart-raylet": "tests/tasks/ray/test_printed.py::test_a_dead_raylet_is_started",
    "restore-run-keys": "tests/flows/test_rendezvous.py::test_what_is_printed_puts_a_run_back",
    "probe-rendezvous": "tests/flows/test_rendezvous.py::test_what_is_printed_probes_and_clears_what_the_probe_left",
}

STAND_IN = {  # action kind -> what of its fault or of its part cannot be had here, and what stands for it
    "reset-gpu": "a GPU that asks for a reset, and its reset, are those of the lab's driver: no GPU is here",
    "quarantine-node": "no GPU here falls off the bus: the lab's driver says that it did; the mark and who reads it are real",
    "restart-container": "no GPU here: the device that the container loses is another one, and its nvidia-smi a script that opens it",
}


def printed(steps: Iterable[Step]) -> str:
    """The lines of the report's blocks."""
    return "\n".join(line for step in steps for line in commands_block(step.commands).splitlines()[1:-1])


def by_hand(steps: Iterable[Step], *inside: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs them in `sh`, as pasted. `inside`: what leads onto the machine (nsenter …)."""
    script = printed(steps)
    assert script.strip()
    return subprocess.run(
        [*inside, "sh", "-s"], input=script, capture_output=True, text=True, timeout=120, check=False, env=os.environ | dict(env or {})
    )  # fmt: skip
