"""The thresholds of the zombie-GPU judgment. Values, units and sources stand in runbook.yaml."""

from runbooks.core.base import Frozen


class Limits(Frozen):
    """Every number that decides. See runbook.yaml for unit and source."""

    idle_s: float
    idle_cpu_percent: float
    idle_io_bytes_per_s: float
    idle_socket_bytes_per_s: float
    low_gpu_percent: float
    busy_percent: float
    spin_s: float
    spin_memory_percent: float
    flat_power_w: float
    stopped_s: float
    defunct_s: float
    uninterruptible_s: float
    idle_floor_mib: float
    assumed_reserve_mib: float
    idle_power_w: float
    latch_percent: float
    vanish_s: float
    ecc_corrected_most: int
    heartbeat_fresh_s: float
    peers_alike: int
    large_share_percent: float
    warm_up_s: float
    together_s: float
    computing_cpu_percent: float
    working_bytes_per_s: float
    mate_nodes: int
    share_s: float
    repeat_s: float
    window_s: float
    samples: int
    min_samples: int
