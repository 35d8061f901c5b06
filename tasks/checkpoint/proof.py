"""Reads the content of checkpoints: the newest of each tier, copies that nothing else proves, and what a full tier
could do without. Changes nothing."""

from collections.abc import Callable

from runbooks.checkpoint.choose import trusted
from runbooks.checkpoint.copies import all_copies
from runbooks.checkpoint.evidence import Candidate, Evidence, TierFacts
from runbooks.checkpoint.parsers.sets import CheckpointSpec
from runbooks.checkpoint.prune import copies_to_prove
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.fleet import Node
from runbooks.core.reading import Known
from tasks.checkpoint.node import prove_on_node, spec_of
from tasks.checkpoint.s3 import prove_s3
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.transport.base import TransportError

Looks = tuple[TierFacts, ...]
YES = ("1", "true", "yes", "on")


class Prover:
    """Proves content within one budget of seconds."""

    def __init__(self, context: Context, node: Node, config: Checkpoints, budget_s: float) -> None:
        self._context, self._node, self._config = context, node, config
        self._begun, self._budget = context.now(), budget_s
        self.finite = str(context.options.get("finite", "")).lower() in YES

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._budget - (self._context.now() - self._begun).total_seconds()

    def prove(self, look: TierFacts, wanted: Candidate, digest: bool = False) -> Candidate:
        """The candidate with what reading its whole content said; a note where that failed."""
        spec = spec_of(self._config)._replace(finite=self.finite, digest=digest)
        try:
            return self._read(look, wanted, spec)
        except (TransportError, OSError) as e:
            return wanted.model_copy(update={"notes": (*wanted.notes, f"content could not be read: {e}")})

    def _read(self, look: TierFacts, wanted: Candidate, spec: CheckpointSpec) -> Candidate:
        tier = self._config.tier(look.tier)
        if tier.kind is TierKind.S3:
            return prove_s3(tier, self._config, spec, wanted)
        return prove_on_node(self._context, self._node, self._config, tier, wanted, max(10.0, self.left_s), spec)

    def newest(self, look: TierFacts, wanted: int, above: int) -> TierFacts:
        """Newest first, until `wanted` are proven."""
        proven = 0

        def each(c: Candidate) -> Candidate:
            nonlocal proven
            if not c.whole or c.format == "unknown":
                return c
            if proven < wanted and c.step > above and (c.checksummed or self.finite) and self.left_s > 0:
                c = self.prove(look, c)
                proven += c.content in ("proven", "unprovable") and not c.suspects
            elif not c.checksummed:
                c = c.model_copy(update={"content": "unprovable"})
            return c

        return with_each(look, each)


def with_each(look: TierFacts, change: Callable[[Candidate], Candidate]) -> TierFacts:
    """The look with every candidate changed."""
    if not isinstance(look.candidates, Known):
        return look
    changed = tuple(change(c) for c in look.candidates.value)
    known = Known[tuple[Candidate, ...]](value=changed, source=look.candidates.source)
    return look.model_copy(update={"candidates": known})


def candidates_of(look: TierFacts) -> tuple[Candidate, ...]:
    """What was found, or nothing."""
    return look.candidates.value if isinstance(look.candidates, Known) else ()


@diagnostic("content of the newest checkpoints · {node.name}")
def prove_tiers(context: Context, node: Node, config: Checkpoints, looks: Looks, budget_s: float, free: float) -> Looks:
    """Content of the newest checkpoints that look whole, until as many are proven as pruning must keep.

    The object store is read only where no node tier proved a step as new as its newest.
    """
    prover, best = Prover(context, node, config, budget_s), -1
    found: dict[str, TierFacts] = {}
    for look in sorted(looks, key=lambda n: n.kind == TierKind.S3):
        remote = look.kind == TierKind.S3
        found[look.tier] = prover.newest(look, 1 if remote else config.tier(look.tier).keep, best if remote else -1)
        if not remote:
            best = max([best, *(c.step for c in candidates_of(found[look.tier]) if c.content == "proven")])
    out = tuple(found[look.tier] for look in looks)
    wanted = [*_same_step(context, node, out), *copies_to_prove(_evidence(context, node, out), config, free)]
    return _read_more(prover, out, set(wanted))


def _evidence(context: Context, node: Node, looks: Looks) -> Evidence:
    return Evidence(node=node.name, taken_at=context.now(), tiers=looks)


def _same_step(context: Context, node: Node, looks: Looks) -> list[tuple[str, str]]:
    """Copies of the newest step that lies on several tiers and has no checksum: only a comparison can tell."""
    by_step: dict[int, list[tuple[str, str]]] = {}
    for copy in all_copies(_evidence(context, node, looks)):
        if trusted(copy.candidate) and copy.candidate.content == "unprovable":
            by_step.setdefault(copy.candidate.step, []).append((copy.look.tier, copy.candidate.name))
    return next((found for _, found in sorted(by_step.items(), reverse=True) if len(found) > 1), [])


def _read_more(prover: Prover, looks: Looks, wanted: set[tuple[str, str]]) -> Looks:
    def again(look: TierFacts) -> TierFacts:
        def each(c: Candidate) -> Candidate:
            asked = (look.tier, c.name) in wanted and prover.left_s > 0
            return prover.prove(look, c, digest=not c.checksummed) if asked else c

        return with_each(look, each)

    return tuple(again(look) for look in looks)
