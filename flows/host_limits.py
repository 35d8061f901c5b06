"""The host-limits runbook as a Prefect flow."""

from flows.standard import standard_flow

host_limits = standard_flow(
    "host-limits",
    "What of a node is at its limit: open files, threads, shared memory, inotify, locked memory; its clock and its "
    "names. Changes nothing. Option: names.",
    "node of the fleet.",
)
