"""Matches and facts of one text, asked by signatures: on which lines each of them stands."""

from runbooks.core.knowledge import Signature
from runbooks.triage import facts as facts_of
from runbooks.triage.around import Around, same
from runbooks.triage.expr import Value, holds, names, number
from runbooks.triage.facts import Facts
from runbooks.triage.load import FamilyCause
from runbooks.triage.probe import Hit, Matcher, Raw


class Reading:
    """Matches and facts of one text, asked by signatures."""

    def __init__(
        self, probes: dict[str, Matcher], facts: Facts, fact_lines: dict[str, list[Raw]], around: Around | None = None
    ) -> None:
        self.probes, self.facts, self.fact_lines = probes, facts, fact_lines
        self._around = around  # where the text is too long to be about one thing

    def may_be(self, cause: FamilyCause) -> bool:
        """Whether nothing in the text excludes the cause, whatever its signatures say. In a long one each match is asked."""
        if self._around:
            return True
        if any(self.probes[p].found for p in cause.never_when):
            return False
        return not cause.only_when or any(self.probes[p].found for p in cause.only_when)

    def lines(self, signature: Signature) -> list[Raw]:
        """Lines on which the signature stands; empty where it does not."""
        if self._around and (near := self._around.lines(signature)) is not None:
            return near
        if signature.pattern:
            return [h.line for h in self.probes[signature.pattern].hits if self._stands(signature, h)]
        if any(self.probes[p].found for p in signature.unless) or not all(
            self.probes[p].found for p in signature.needs
        ):
            return []
        return self._by_facts(signature)

    def _stands(self, signature: Signature, hit: Hit) -> bool:
        if any(self._there(p, hit) for p in signature.unless) or not all(self._there(p, hit) for p in signature.needs):
            return False
        if any(same(h, hit) and _later(h, hit) for p in signature.recovered for h in self.probes[p].hits):
            return False
        if not all(self._neighbour(p, hit, signature.within) for p in signature.near):
            return False
        if any(self._neighbour(p, hit, signature.within) for p in signature.not_near):
            return False
        groups: dict[str, tuple[Value, ...]] = {k: (number(v),) for k, v in hit.groups.items()}
        return all(holds(c, {**self.facts, **groups}) for c in signature.where)

    def _there(self, pattern: str, hit: Hit) -> bool:
        probe = self.probes[pattern]
        return any(same(h, hit) for h in probe.hits) or probe.framed > 0

    def _neighbour(self, pattern: str, hit: Hit, within: int) -> bool:
        return any(
            o.line.file == hit.line.file and abs(o.line.number - hit.line.number) <= within
            for o in self.probes[pattern].hits
        )

    def _by_facts(self, signature: Signature) -> list[Raw]:
        if not all(holds(c, self.facts) for c in signature.where):
            return []
        used = sorted({n for c in signature.where for n in names(c)})
        stated = Raw(
            "given", 0, 0, ("facts: " + ", ".join(f"{n}={facts_of.plain(self.facts[n])}" for n in used)).encode()
        )
        return [r for n in used for r in self.fact_lines.get(n, [])[:2]] or [stated]


def _later(other: Hit, hit: Hit) -> bool:
    return other.line.file == hit.line.file and other.line.number > hit.line.number
