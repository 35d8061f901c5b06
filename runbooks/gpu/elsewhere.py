"""Ranks of a run on the fleet's other nodes: where they may be, and which processes are of one run. Pure."""

from collections.abc import Sequence

from runbooks.core.fleet import Job
from runbooks.core.reading import Known, Unknown
from runbooks.gpu.evidence import Elsewhere, Evidence, Process
from runbooks.gpu.mates import IDENTITIES, named, number, one_run
from runbooks.parsers.address import is_loopback


def run_names(p: Process) -> tuple[str, ...]:
    """What names its run on any node of the fleet, one text for each way of naming it; a loopback address names none."""
    bound = is_loopback((p.run or {}).get("MASTER_ADDR", ""))
    return tuple("" if bound and "MASTER_ADDR" in names else named(p, names) for names in IDENTITIES)


def of_one_run(p: Process, q: Process) -> str:
    """What shows that processes on two nodes are of one run, "" if nothing does."""
    mine, other = run_names(p), run_names(q)
    return next(a for a, b in zip(mine, other, strict=True) if a and b) if one_run(mine, other) else ""


def spread(processes: Sequence[Process]) -> tuple[Process, ...]:
    """Processes of a run whose world has more ranks than are here."""
    live = [p for p in processes if p.state not in "ZX" and number(p, 1) and any(run_names(p))]
    return tuple(p for p in live if (number(p, 1) or 0) > len({number(q, 0) for q in live if of_one_run(p, q)}))


def places(here: str, found: Sequence[Process], jobs: Sequence[Job], nodes: Sequence[str]) -> tuple[str, ...]:
    """The other nodes on which the rest of these runs may be: those of the job in the fleet file, else all of the fleet."""
    bound = {j.name: j.nodes for j in jobs if j.nodes}
    wanted = dict.fromkeys(n for p in found for n in bound.get(p.job, tuple(nodes)))
    return tuple(n for n in wanted if n != here)


def unread(evidence: Evidence) -> tuple[str, ...]:
    """Other nodes, or "other nodes", on which nobody could look whether a mate is at work."""
    if isinstance(evidence.elsewhere, Unknown):
        return ("other nodes",)
    looks = evidence.elsewhere.value if isinstance(evidence.elsewhere, Known) else ()
    return tuple(e.node for e in looks if not isinstance(e.processes, Known))


def as_evidence(evidence: Evidence, there: Elsewhere) -> Evidence:
    """That node as if it were judged itself, as far as it was read."""
    read = {"window_s": there.window_s, "facts": there.facts, "gpus": there.gpus, "processes": there.processes}
    return Evidence(node=there.node, taken_at=evidence.taken_at, jobs=evidence.jobs, **read)
