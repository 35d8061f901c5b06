"""The container-death runbook as a Prefect flow."""

from flows.standard import standard_flow

container_death = standard_flow(
    "container-death",
    "A container died, or lives without its application: judges host, container and application in order "
    "and restores them.",
    "node that the fleet file's `containers` name; option container=NAME where there are several.",
)
