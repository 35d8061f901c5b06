"""The stuck-spawning runbook as a Prefect flow."""

from flows.standard import standard_flow

stuck_spawning = standard_flow(
    "stuck-spawning",
    "A worker that does not come up: database row, pod, network and inside joined into one cause.",
    "`worker/<id>`, with the id of the workers' table, or `workers`: all past their limit in spawning.",
)
