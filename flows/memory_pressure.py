"""The memory-pressure runbook as a Prefect flow."""

from flows.standard import standard_flow

memory_pressure = standard_flow(
    "memory-pressure",
    "Out of memory on GPU or host: who holds it, and what to change for the given configuration. Changes nothing. "
    "Options: log, batch, gpus, accumulation, checkpointing.",
    "node name in the fleet file.",
)
