"""The checkpoint-fallback runbook as a Prefect flow."""

from flows.standard import standard_flow

checkpoint_fallback = standard_flow(
    "checkpoint-fallback",
    "After a crash: which checkpoint to resume from, with proof, over memory, disk and S3; "
    "repairs what keeps the next save from working. Option: log.",
    "node of the fleet file's `checkpoints`.",
)
