"""Causes of one report of which one forbids what another asks for, about memory."""

import itertools
import re
from collections.abc import Iterable

TOPICS = {  # words of remedies and of prohibitions
    "a smaller batch": r"\bbatch",
    "allocator settings": r"alloc_conf|allocator options|fragmentation options|the setting",
    "larger GPUs": r"larger gpu",
}


def at_odds(causes: Iterable[tuple[str, str, tuple[str, ...]]]) -> list[str]:
    """Pairs of (slug, remedy, prohibitions) of which one forbids what the other asks for, in words."""
    return [
        f"{slug} asks for {topic}, and {other} forbids it"
        for (slug, remedy, _), (other, _, must_not) in itertools.permutations(causes, 2)
        for topic, words in TOPICS.items()
        if re.search(words, remedy, re.IGNORECASE) and any(re.search(words, line, re.IGNORECASE) for line in must_not)
    ]
