"""Whether the deaths come again and again: a restart loop with its period, or too many deaths to go on by itself."""

import itertools
from statistics import median

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.words import Limits, cause, deaths, life_s, own_events, span
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty


def judge_loop(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The loop that a restart policy runs, and the number of deaths that ends automatic repair."""
    found = []
    own = [x.at for x in own_events(e, c) if x.action == "die"]
    period = median([(b - a).total_seconds() for a, b in itertools.pairwise(own)]) if len(own) > 2 else None
    looping = c.status == "restarting" or (c.restart_count >= limits.deaths_to_escalate and _young(e, c, limits))
    if looping:
        words = f"restarted {c.restart_count} times (policy {c.restart_policy}), last exit code {c.exit_code}"
        often = f"it dies every {span(period)} (median of {len(own) - 1} intervals)" if period else ""
        found.append(cause("restart-loop", Certainty.CONFIRMED, f"container {c.name}", words, often))
    number = deaths(e, limits)
    if len(number) >= limits.deaths_to_escalate and c.status != "running":
        words = f"{len(number)} deaths within {span(limits.deaths_window_s)}: automatic repair ends here"
        reasons = "exit codes so far: " + ", ".join(_codes(e, c))
        found.append(cause("too-many-deaths", Certainty.CONFIRMED, f"container {c.name}", words, reasons))
    return found


def _young(e: Evidence, c: ContainerFacts, limits: Limits) -> bool:
    if c.status == "running" and c.started_at:
        return (e.taken_at - c.started_at).total_seconds() < limits.young_life_s
    life = life_s(c)
    return life is not None and life < limits.young_life_s


def _codes(e: Evidence, c: ContainerFacts) -> list[str]:
    kept = [s for s in value_of(e.siblings) or () if s.name.startswith(e.name + ".dead-")]
    return [f"{s.name[-12:]}: {s.exit_code}" for s in kept] + [f"{c.id[:12]}: {c.exit_code}"]
