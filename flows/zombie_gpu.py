"""The zombie-gpu runbook as a Prefect flow."""

from flows.standard import standard_flow

zombie_gpu = standard_flow(
    "zombie-gpu",
    "Busy on paper, not working: finds out why a node's GPUs do nothing, or only look busy.",
    "node name in the fleet file; `local` is this machine.",
)
