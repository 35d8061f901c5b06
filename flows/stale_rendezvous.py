"""The stale-rendezvous runbook as a Prefect flow."""

from flows.standard import standard_flow

stale_rendezvous = standard_flow(
    "stale-rendezvous",
    "Elastic training does not start or restart: clears what is dead, never what is alive. Options: symptom, run.",
    "name of a rendezvous in the fleet file, or NAME/RUN-ID, or a node that asks for one.",
)
