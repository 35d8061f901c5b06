"""Saves that lie in parts: what one place lacks may lie on another host. Joined by names and sizes before one is called incomplete."""

from collections.abc import Iterator
from enum import StrEnum

from runbooks.checkpoint.copies import Copy
from runbooks.checkpoint.evidence import Candidate, Evidence
from runbooks.checkpoint.parsers.needs import shard_ranks
from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Known

HALF = frozenset(("metadata-missing", "shard-missing", "part-missing"))  # what another host may have
MANY = 3  # names in a sentence


class SaveStanding(StrEnum):
    """Where the rest of an incomplete save is."""

    COMPLETE = "complete"  # several hosts have all of it together, by names and sizes
    UNREAD = "unread"  # hosts that may have the rest were not read
    ELSEWHERE = "elsewhere"  # all that lacks is of other ranks, and no other host is known
    GONE = "gone"  # every host was read, and none has it
    HERE = "here"  # nothing lacks, or what is wrong is wrong here


class Together(Frozen):
    """One incomplete save over all hosts."""

    standing: SaveStanding
    hosts: dict[str, int] = {}  # host -> files that it has
    unread: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # on no host that was read
    apart_s: float = 0.0  # between the times of the parts, where all of it is there
    total: int = 0  # files that the save must have; 0 where nothing says it

    @property
    def words(self) -> str:
        """What was found, in one sentence."""
        found = " and ".join(f"{n} files on {host}" for host, n in self.hosts.items())
        lack = f"; {len(self.missing)} of {self.total} are on none: {', '.join(self.missing[:MANY])}" if self.missing else ""
        blind = f"; not read: {', '.join(self.unread[:MANY])}" if self.unread else ""
        return f"{found}{lack}{blind}"


def together(evidence: Evidence, config: Checkpoints, copy: Copy) -> Together:
    """What all hosts have of the step of an incomplete copy."""
    mine = copy.candidate
    if not _only_half(mine):
        return Together(standing=SaveStanding.HERE)
    tier = config.tier(copy.look.tier)
    if tier.kind is TierKind.S3 or tier.shared:
        return Together(standing=SaveStanding.GONE, hosts={copy.where: len(mine.has)}, missing=_lacking(mine.needs, mine.has))
    there = {evidence.node: mine} | dict(_others(evidence, copy))
    unread = tuple(o.node for o in evidence.others if o.tier == tier.name and not isinstance(o.steps, Known))
    return _joined(there, (*unread, *evidence.not_looked))


def _only_half(c: Candidate) -> bool:
    return bool(c.faults) and all(f.kind in HALF for f in c.faults) and not c.archived


def _others(evidence: Evidence, copy: Copy) -> Iterator[tuple[str, Candidate]]:
    for other in evidence.others:
        for part in other.parts:
            if other.tier == copy.look.tier and part.name == copy.candidate.name and _only_half(part):
                yield other.node, part


def _joined(there: dict[str, Candidate], unread: tuple[str, ...]) -> Together:
    needs: dict[str, int] = {}
    has: dict[str, int] = {}
    mixed = False
    for c in there.values():
        mixed |= any(needs.get(n, size) != size for n, size in c.needs.items())
        needs.update(c.needs)
        mixed |= any(has.get(n, size) != size for n, size in c.has.items() if n in c.needs or n in needs)
        has.update({n: max(size, has.get(n, 0)) for n, size in c.has.items()})
    lacking = _lacking(needs, has)
    marked = any(not _without_marker(c) for c in there.values())
    hosts = {host: sum(n in c.has for n in needs) or len(c.has) for host, c in there.items()}
    seen = {"hosts": hosts, "total": len(needs), "missing": lacking, "unread": unread}
    if needs and not lacking and marked and len(there) > 1 and not mixed:
        times = [c.mtime_s for c in there.values()]
        return Together(standing=SaveStanding.COMPLETE, apart_s=max(times) - min(times), **seen)
    if unread:
        return Together(standing=SaveStanding.UNREAD, **seen)
    if len(there) == 1 and _of_other_ranks(next(iter(there.values())), lacking):
        return Together(standing=SaveStanding.ELSEWHERE, **seen)
    return Together(standing=SaveStanding.GONE, **seen)


def _lacking(needs: dict[str, int], has: dict[str, int]) -> tuple[str, ...]:
    """Needed files that no host has with their size; an empty one is none."""
    return tuple(sorted(n for n, size in needs.items() if has.get(n, 0) <= 0 or size not in (-1, has[n])))


def _without_marker(c: Candidate) -> bool:
    return any(f.kind == "metadata-missing" for f in c.faults)


def _of_other_ranks(c: Candidate, lacking: tuple[str, ...]) -> bool:
    """A distributed save whose lacking shards are all of ranks that have nothing here; the marker is written last, by rank 0."""
    here, gone = shard_ranks(c.has), shard_ranks(lacking)
    if _without_marker(c):
        return bool(here) and 0 not in here
    return bool(gone) and bool(here) and not gone & here
