"""The first look at a node, and what a person is told of it: entered or not, rights, Python, programs, clock, quarantine. Pure."""

import json
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from runbooks.core.base import Frozen
from runbooks.core.node_tools import Wanted
from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.times import utc_of

QUARANTINE = "/var/lib/gpu-runbooks/quarantine.json"  # people and schedulers look here; zombie-gpu's plan “quarantine the node” writes it
OLDEST = (3, 6)  # of Python on a node: what the probes are written for
LATE_S = 60.0  # design: logs of two machines are laid side by side by the minute; it is a hint, no cause
LOG_IN = {  # what the runbook of log-ins then names
    UnknownReason.DENIED: "gpu-runbooks run ssh-auth-failure {} names the stage at which the log-in stops",
    UnknownReason.UNREACHABLE: "gpu-runbooks run ssh-auth-failure {} names the stage at which the connection stops",
}


class NodeBasics(Frozen):
    """What one log-in and one command said of a node."""

    node: str
    blind: Unknown | None = None  # there was no answer, or one that makes no sense: the rest is not known
    python: tuple[int, ...] = ()  # major, minor; empty: none
    uid: int = 0
    lacks: tuple[Wanted, ...] = ()  # programs that readings call and that are missing
    off_s: float = 0.0  # at least so far apart are its clock and ours
    mark: str = ""  # the quarantine mark as it stands there

    @property
    def shut(self) -> Unknown | None:
        """Why no command at all can be run there, if so."""
        return self.blind if self.blind and self.blind.reason in LOG_IN else None

    @property
    def quarantined(self) -> bool:
        """A mark that is not ours, or is cut off, is a mark all the same."""
        return bool(self.mark.strip())


class Remark(NamedTuple):
    """What a node lacks, or what holds for the whole of it, and what to do about it."""

    says: str
    fix: str = ""
    fault: bool = False


def remarks(look: NodeBasics) -> tuple[Remark, ...]:
    """Worst first; none: it can be entered and read in full."""
    if look.blind:
        return (Remark(look.blind.why, _way_in(look.node, look.blind.reason), fault=True),)
    found = []
    if look.python < OLDEST:
        has = f"Python {version(look)}" if look.python else "no Python 3"
        found.append(Remark(f"{has}: most readings need {'.'.join(map(str, OLDEST))}", "install python3 there", fault=True))
    found += [Remark(tool.says, tool.fix, tool.vital) for tool in sorted(look.lacks, key=lambda t: not t.vital)]
    if look.uid:
        found.append(Remark(f"as uid {look.uid}: other users' processes, kernel log and most repairs may be denied"))
    if look.off_s > LATE_S:
        found.append(Remark(f"its clock is {look.off_s:.0f} s off ours"))
    if look.quarantined:
        found.append(Remark(quarantine(look), f"once it is repaired, release it: rm {shlex.quote(QUARANTINE)}"))
    return tuple(found)


def alike(looks: Iterable[NodeBasics]) -> dict[Remark, list[str]]:
    """Each remark with the nodes that it holds for, faults first; `shut` nodes are left out: they are findings."""
    found: dict[Remark, list[str]] = {}
    for look in looks:
        for remark in () if look.shut else remarks(look):
            found.setdefault(remark, []).append(look.node)
    return dict(sorted(found.items(), key=lambda item: not item[0].fault))


def version(look: NodeBasics) -> str:
    """Of its Python."""
    return ".".join(map(str, look.python))


def _way_in(node: str, reason: UnknownReason) -> str:
    if reason is UnknownReason.UNPARSABLE:
        return "check its shell's startup files"
    return LOG_IN.get(reason, "log in by hand and find out why a simple command does not end").format(node)


def quarantine(look: NodeBasics) -> str:
    """Who closed the node, since when and why, as far as the mark says."""
    try:
        found = json.loads(look.mark)
    except ValueError:
        found = None
    said = {k: str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    since = f" since {utc_of(said['at'])}" if "at" in said else ""
    return f"quarantined{since} by {said.get('by', 'somebody')}: {said.get('reason', 'its mark does not say why')}"
