"""What each node was on each of the last nights: a letter a night, handed on from one nightly report to the next."""

from collections.abc import Collection, Mapping
from datetime import datetime

from runbooks.core.base import Frozen
from runbooks.core.outcome import Outcome

MOST = 30
WRONG, UNKNOWN, WELL, NOTHING, NOT_ASKED = "x", "?", ".", "-", " "


class Nights(Frozen):
    """The last nights, the newest last."""

    at: tuple[datetime, ...] = ()
    nodes: dict[str, str] = {}  # a letter for each of `at`

    def and_then(self, at: datetime, found: Mapping[str, Collection[Outcome]]) -> "Nights":
        """With one night more, of the nodes that the fleet has then. `found`: how each runbook on a node ended."""
        nights = (*self.at, at)[-MOST:]
        before = len(self.at)
        nodes = {n: (self.nodes.get(n, "").rjust(before) + letter(outcomes))[-MOST:] for n, outcomes in found.items()}
        return Nights(at=nights, nodes=nodes)


def letter(outcomes: Collection[Outcome]) -> str:
    """A node's night: the worst of its runbooks."""
    if not outcomes:
        return NOT_ASKED
    if any(o.exit_code == 1 for o in outcomes):
        return WRONG
    if any(not o.row.answered for o in outcomes):
        return UNKNOWN
    return WELL if any(o.row.well for o in outcomes) else NOTHING
