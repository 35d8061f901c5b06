"""Whether somebody may use a tier whom nobody here can see."""

from runbooks.checkpoint.evidence import TierFacts
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind
from runbooks.core.reading import Known


def unseen_clients(config: Checkpoints, look: TierFacts, tier: Tier) -> str:
    """Why another reader or writer can't be ruled out; "" if it can."""
    if config.others_write:
        return "the fleet file says that others write or read here"
    if look.kind == TierKind.S3:
        return ""  # the write is conditional on the object's ETag: the store compares
    if tier.shared or (isinstance(look.space, Known) and look.space.value.network):
        return "it lies on a file system whose other clients can't be seen from here"
    if not isinstance(look.holders, Known):
        return "not every process could be looked at"
    writing = [h for h in look.holders.value if h.writing]
    return f"pid {writing[0].pid} writes {writing[0].path}" if writing else ""
