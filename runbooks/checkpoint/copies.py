"""Every copy of every step, over all tiers."""

import shlex

from runbooks.checkpoint.evidence import Candidate, Evidence, TierLook
from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Tier, TierKind
from runbooks.core.reading import Known

SPEED = (TierKind.MEMORY, TierKind.NVME, TierKind.S3)


def command(*argv: str) -> str:
    """A command line that a person can paste, whatever the names on the disk are."""
    return shlex.join(argv)


def aws(tier: Tier, *words: str) -> tuple[str, ...]:
    """The store's own command, for the store that the tier names."""
    return ("aws", *(("--endpoint-url", tier.endpoint) if tier.endpoint else ()), *words)


class Copy(Frozen):
    """A candidate and the tier it lies on."""

    look: TierLook
    candidate: Candidate

    @property
    def where(self) -> str:
        """Full path or URL."""
        return f"{self.look.where.rstrip('/')}/{self.candidate.name}"


def all_copies(evidence: Evidence) -> tuple[Copy, ...]:
    """Every candidate of every tier, newest step first, fastest tier first."""
    found = [
        Copy(look=look, candidate=c)
        for look in evidence.tiers
        if isinstance(look.candidates, Known)
        for c in look.candidates.value
    ]
    return tuple(sorted(found, key=lambda c: (-c.candidate.step, SPEED.index(TierKind(c.look.kind)))))
