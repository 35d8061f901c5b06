"""Whether a line reports a failure at all, known or not: by the words of runbooks/knowledge/failure.yaml."""

import re
from collections.abc import Callable
from functools import lru_cache

from runbooks.core.base import Frozen

# Steps told at the level Info (Google's log, NCCL, ssh -v), counters that end in 0, and what every unsigned module prints.
_CHATTER = re.compile(
    r"debug\d: |\S+:\d+:\d+ \[\d+\] NCCL INFO |(?:\[?rank\d+\]:)?\[?I\d{4} [\d:.]+ "
    r"|.*[a-z)]\s?[:=]\s?0\s*$|.*module verification failed: signature"
)


class FailureRow(Frozen):
    """Words of one kind."""

    source: str  # where they are used
    pattern: str
    lines: tuple[str, ...]  # examples


class FailureWords(Frozen):
    """The whole table."""

    says: dict[str, FailureRow]  # what reports a failure
    denies: dict[str, FailureRow]  # what takes that back

    @property
    def patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that report, and those that take back."""
        return tuple(r.pattern for r in self.says.values()), tuple(r.pattern for r in self.denies.values())


@lru_cache(maxsize=4)
def reporting(failure: tuple[str, ...], denied: tuple[str, ...]) -> Callable[[str], bool]:
    """A test of lines: whether one still reports a failure without what it takes back."""
    says, denies = [re.compile(p) for p in failure], [re.compile(p) for p in denied]

    def reports(line: str) -> bool:
        if _CHATTER.match(line):
            return False
        left = line
        for pattern in denies:
            left = pattern.sub(" ", left)
        return left == line or any(p.search(left) for p in says)

    return reports
