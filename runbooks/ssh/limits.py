"""The thresholds of ssh-auth-failure. Values, units and sources are in runbook.yaml."""

from runbooks.core.base import Frozen


class Limits(Frozen):
    """No defaults: they come from runbook.yaml, overridden by the fleet file."""

    rsa_least_bits: int
    agent_most_keys: int
    rollout_nodes: int
    rollout_window_s: float
