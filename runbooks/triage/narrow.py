"""A part of the knowledge: what a runbook looks for in a text that it read itself."""

import re
from functools import lru_cache

from runbooks.triage.load import RuleSet, library, patterns_of


@lru_cache(maxsize=64)
def narrowed(only: tuple[str, ...]) -> RuleSet:
    """The causes named as "family" or "family/slug", with the facts that they ask for. Raises KeyError for a wrong name."""
    whole = library()
    if not only:
        return whole
    chosen = tuple(k for k in whole.causes if k.family in only or f"{k.family}/{k.slug}" in only)
    wrong = {*only} - {k.family for k in chosen} - {f"{k.family}/{k.slug}" for k in chosen}
    if wrong:
        raise KeyError(f"triage knows nothing named {', '.join(sorted(wrong))}")
    conditions = [c for k in chosen for s in k.cause.signatures for c in s.where]
    facts = {n: f for n, f in whole.facts.items() if any(re.search(rf"\b{n}\b", c) for c in conditions)}
    literals = {p: whole.literals[p] for p in patterns_of(chosen, facts)}
    return RuleSet(causes=chosen, facts=facts, codes={}, failure=(), literals=literals)
