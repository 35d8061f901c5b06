"""The numbers by which memory is judged."""

from runbooks.core.base import Frozen


class Limits(Frozen):
    """Values come from runbook.yaml and the fleet file."""

    elsewhere_share: float
    elsewhere_bytes: int
    fragment_share: float
    cgroup_share: float
    available_share: float
    cache_share: float
    kill_near_s: float
    kill_old_s: float
    kill_drift_s: float
