"""The thresholds of stuck-spawning. Values, units and sources are in runbook.yaml."""

from runbooks.core.base import Frozen


class Limits(Frozen):
    """No defaults: they come from runbook.yaml, overridden by the fleet file."""

    spawning_s: float
    boot_s: float
    pull_s_per_gb: float
    pull_unknown_s: float
    heartbeat_s: float
    still_s: float
    cycle_s: float
    gap_s: float
    watch_s: float
    container_s: float
    visible_s: float
    usual_least: int
    usual_times: float
    breaker_window_s: float
    breaker_least: int
    breaker_share: float
    leak_age_s: float
    wait_most_s: float
    wait_step_s: float
    workers_at_once: int
