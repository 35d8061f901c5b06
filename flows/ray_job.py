"""The ray-job runbook as a Prefect flow."""

from flows.standard import standard_flow

ray_job = standard_flow(
    "ray-job",
    "A Ray job looks stuck, or failed without saying why: the first real error, the phase of the start, "
    "who holds the resources.",
    "node that reaches the Ray head of the fleet file; option job=SUBMISSION-ID.",
)
