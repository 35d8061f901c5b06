"""The numbers of this runbook, by the names of runbook.yaml."""

from runbooks.core.base import Frozen


class Limits(Frozen):
    """Values come from runbook.yaml and the fleet file."""

    structure_newest: int
    content_seconds: float
    cross_nodes: int
    free_saves: float
    upload_age_s: float
    save_stalled_s: float
    one_save_s: float
    skew_s: float
    memory_bytes_per_s: float
    nvme_bytes_per_s: float
    s3_bytes_per_s: float
    restore_price_per_gib: float
    restore_days: int
