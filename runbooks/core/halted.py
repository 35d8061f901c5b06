"""Processes of a service that a signal has stopped, and the plan that continues them. Pure."""

from runbooks.core.base import Frozen
from runbooks.core.distinct import capital
from runbooks.core.plan import Plan, Step
from runbooks.core.remedies import NotDone

NAME = "let it go on"
ASK_FIRST = "nothing is lost. Ask first who stopped it, and why"


class Halted(Frozen):
    """A process that was stopped by a signal (state T) twice within one reading, with what identifies it."""

    pid: int
    start_ticks: int
    boot_id: str
    uid: int
    command: str  # secrets replaced
    tracer: int = 0  # pid of a debugger that holds it
    beside: tuple[int, ...] = ()  # others that run the same program at the same place


def not_from_here(it: Halted) -> str:
    """Why it is not continued from here; "" where nothing speaks against it."""
    if it.tracer:
        return f"pid {it.tracer} traces it: a debugger holds it"
    if it.beside:
        return f"pid {', '.join(map(str, it.beside))} runs the same program at the same place and may have replaced it"
    if it.pid <= 1 or it.start_ticks <= 0 or not it.boot_id:
        return "it has no identity that could be checked"
    return ""


def withheld(pid: int | None, why: str) -> NotDone:
    """The sentence with which a report says so."""
    line = f"{f'pid {pid}' if pid else 'it'} is not continued from here: {why}"
    return NotDone(line, "continue-processes", [pid] if pid else [])


def asking(*more: str) -> str:
    """Why the plan may be chosen, and what speaks against it, a sentence each."""
    return ". ".join((ASK_FIRST, *(capital(line) for line in more if line)))


def go_on(step: Step, slug: str, settle_s: float, why: str = "") -> Plan:
    """The first plan for what is stopped: this step (signals.py) continues it."""
    return Plan(name=NAME, steps=(step,), for_causes=(slug,), why=asking(why), settle_s=settle_s)
