"""What the watch saw and what follows from it: which fault starts a run, under which key, and when to try again."""

from datetime import datetime, timedelta

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.knowledge import usual_limits
from runbooks.core.outcome import Outcome
from runbooks.core.policy import Mode


class ContainerSeen(Frozen):
    """A watched container at one look, as the engine and the head show it."""

    id: str = ""
    status: str = "missing"
    started: str = ""
    finished: str = ""
    exit: int = 0
    oom: bool = False
    health: str = ""
    app: bool | None = None  # its application's process; None: not watched or not told
    ray_node: str | None = None  # id of its living Ray node, "" none; None: not watched or not told
    engine_down: str = ""  # why the engine does not answer
    unreachable: str = ""  # why the node could not be asked


def _join_s() -> float:
    return float(usual_limits("container-death")["join_s"])


class Patience(Frozen):
    """How long a fault must last before a run starts, and how tries are spread. Seconds."""

    engine_s: float = 10  # a daemon that is restarted is back by then
    node_s: float = 30  # a network that flickers
    join_s: float = Field(default_factory=_join_s)  # an application and its Ray node need time to come up
    soon_s: float = 2  # after a run that could not be begun (no server, another run holds the node) or could not tell
    longest_soon_s: float = 10
    first_retry_s: float = 15
    longest_retry_s: float = 900


class ContainerFault(Frozen):
    """A fault that a run is about. `key` is the same for the same fault, also after the watch was restarted."""

    key: str
    words: str
    grace_s: float = 0.0


class Case(Frozen):
    """One container's fault on its way: since when, how often tried, when next."""

    trouble: ContainerFault
    since: datetime
    tries: int = 0
    next_at: datetime
    done: str = ""  # why nothing more is tried for this fault; "" go on


FOR_A_PERSON = frozenset(["too-many-deaths", "container-missing", "bad-command", "restart-loop"])  # time does not help
RUNS = ("running", "paused", "restarting")


def trouble_of(name: str, seen: ContainerSeen, patience: Patience) -> ContainerFault | None:
    """The fault, the level nearest to the machine first; None when nothing is wrong."""
    if seen.unreachable:
        return ContainerFault(key="node", words=f"its node cannot be asked: {seen.unreachable}", grace_s=patience.node_s)
    if seen.engine_down:
        words = f"the engine does not answer: {seen.engine_down}"
        return ContainerFault(key="engine", words=words, grace_s=patience.engine_s)
    if seen.status == "missing":
        return ContainerFault(key="missing", words=f"there is no container {name}")
    if seen.status not in RUNS:
        end = f"{seen.id[:12]}-{seen.finished}"
        return ContainerFault(key=f"died-{end}", words=f"{name} is {seen.status}, exit code {seen.exit}")
    return _application(name, seen, patience) if seen.status == "running" else _restarting(name, seen)


def _restarting(name: str, seen: ContainerSeen) -> ContainerFault | None:
    if seen.status != "restarting":
        return None
    return ContainerFault(key=f"loop-{seen.id[:12]}", words=f"{name} restarts again and again, exit code {seen.exit}")


def _application(name: str, seen: ContainerSeen, patience: Patience) -> ContainerFault | None:
    life = f"{seen.id[:12]}-{seen.started}"
    if seen.health == "unhealthy":
        return ContainerFault(key=f"unhealthy-{life}", words=f"the health check of {name} fails")
    if seen.app is False:
        return ContainerFault(key=f"app-{life}", words=f"{name} runs without its application", grace_s=patience.join_s)
    if seen.ray_node == "":
        return ContainerFault(key=f"ray-{life}", words=f"the head lists no living node of {name}", grace_s=patience.join_s)
    return None


def follow(case: Case | None, trouble: ContainerFault | None, was_well: bool, now: datetime) -> Case | None:
    """The case after another look: the same fault goes on, another one begins, no fault ends it.

    `was_well`: it was seen well before, so that its application was up: no time for coming up is given then.
    """
    if trouble is None:
        return None
    if case is not None and case.trouble.key == trouble.key:
        return case
    began_up = was_well and trouble.key.startswith(("app-", "ray-"))
    wait = 1.0 if began_up else trouble.grace_s
    return Case(trouble=trouble, since=now, next_at=now + timedelta(seconds=wait))


def _settled(outcome: Outcome) -> bool:
    """True if the same fault is not tried again: it is over, or a person has it."""
    return outcome.row.closing or outcome.row.with_person


def is_due(case: Case, now: datetime) -> bool:
    """True if a run should start now."""
    return not case.done and now >= case.next_at


def after_run(case: Case, outcome: Outcome | None, causes: tuple[str, ...], mode: Mode, patience: Patience,
              now: datetime) -> Case:  # fmt: skip
    """The case once a run about it has ended. None as outcome: it could not be run or left no answer."""
    done = outcome.row.message if outcome and _settled(outcome) else ""
    if outcome is Outcome.UNHEALTHY and mode is Mode.DIAGNOSE:
        done = "reported; diagnose mode changes nothing"
    if outcome is Outcome.UNHEALTHY and FOR_A_PERSON & set(causes):
        done = f"{', '.join(sorted(FOR_A_PERSON & set(causes)))}: a person must look"
    tries = case.tries + 1
    soon = outcome in (None, Outcome.REFUSED)
    unsure = outcome is Outcome.CANNOT_TELL  # right after a death the engine may not have told all of it yet
    first = patience.soon_s if soon or unsure else patience.first_retry_s
    longest = patience.longest_soon_s if soon else patience.longest_retry_s
    wait = min(longest, first * 2.0 ** min(tries - 1, 20))
    return case.model_copy(update={"tries": tries, "done": done, "next_at": now + timedelta(seconds=wait)})
