"""The distributed-setup runbook as a Prefect flow."""

from flows.standard import standard_flow

distributed_setup = standard_flow(
    "distributed-setup",
    "Before a distributed launch: reads all nodes at once and the training configuration. Changes nothing.",
    "name of a launch in the fleet file.",
)
