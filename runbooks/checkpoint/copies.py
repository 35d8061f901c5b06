"""Every copy of every step, over all tiers."""

import shlex

from runbooks.checkpoint.evidence import Candidate, Evidence, FileHolder, TierFacts
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

    look: TierFacts
    candidate: Candidate

    @property
    def where(self) -> str:
        """Full path or URL."""
        return f"{self.look.where.rstrip('/')}/{self.candidate.name}"


def writer(look: TierFacts, name: str) -> FileHolder | None:
    """A process that has that file, or one in that folder, open for writing: a save or a copy that goes on."""
    held = look.holders.value if isinstance(look.holders, Known) else ()
    return next((h for h in held if h.writing and h.path.split("/")[0] == name.split("/")[0]), None)


def whether_it_ends(pid: int) -> str:
    """What decides whether something that is still written is whole."""
    return f"whether pid {pid}, which has it open for writing, ends"


def all_copies(evidence: Evidence) -> tuple[Copy, ...]:
    """Every candidate of every tier, newest step first, fastest tier first."""
    found = [
        Copy(look=look, candidate=c)
        for look in evidence.tiers
        if isinstance(look.candidates, Known)
        for c in look.candidates.value
    ]
    return tuple(sorted(found, key=lambda c: (-c.candidate.step, SPEED.index(TierKind(c.look.kind)))))
