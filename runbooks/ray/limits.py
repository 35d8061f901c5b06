"""The numbers by which a Ray job is judged."""

from runbooks.core.base import Amount, Frozen, Size


class Limits(Frozen):
    """Numbers of runbook.yaml."""

    job_start_timeout_s: Amount
    head_slow_s: Amount  # the head's lists took longer than this
    disk_free_min_bytes: Size
    cpu_moving_s: Amount  # CPU seconds in the window that count as work
    read_moving_bytes: Size  # bytes read in the window that count as work
    gpu_busy_percent: Amount
    memory_kill_window_s: Amount
    autoscaler_silent_s: Amount  # a log of it that is older is of one that has ended, or hangs
