"""How a run can end: one table of everything that is said or decided about it. Nobody keeps a second list."""

from enum import StrEnum
from typing import NamedTuple

from runbooks.core.verdict import State


class Severity(StrEnum):
    """Who is needed: somebody now, somebody today, nobody."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def needs_somebody(self) -> bool:
        """False for what may wait until quiet hours are over."""
        return self is not Severity.INFO


class Outcome(StrEnum):
    """How a run ended; the worst first, as the landing page shows them."""

    WAITING = "waiting"  # asks a person
    NOT_FIXED = "not-fixed"  # acted, and the fault is still seen: escalate
    PARTLY_FIXED = "partly-fixed"  # the fault is seen gone; a step was not done, or something else is wrong: a person goes on
    UNFINISHED = "unfinished"  # the process that ran it is gone; looked at again, nothing repeated
    UNHEALTHY = "sick"  # something is wrong; nothing was done (diagnose mode, or no safe plan)
    REFUSED = "refused"  # a guard said no
    EXPIRED = "expired"  # nobody decided in time, or the alert resolved, or a freeze came
    REJECTED = "rejected"
    CANNOT_TELL = "cannot-tell"
    CANCELLED = "cancelled"  # a person cancelled the run, or it ran for too long
    FIXED = "fixed"
    HEALTHY = "healthy"
    NOT_APPLICABLE = "not-applicable"

    @property
    def row(self) -> "OutcomeRow":
        """Everything that follows from it."""
        return TABLE[self]

    @property
    def exit_code(self) -> int:
        """0 nothing wrong or fixed, 1 wrong or waiting, 3 cannot tell, 4 refused by a guard."""
        return self.row.exit_code

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return tuple(Outcome).index(self)


class OutcomeRow(NamedTuple):
    """One line of the table."""

    name: str  # of the run's last state in Prefect
    report: str  # first words of a report
    message: str  # in a notification
    severity: Severity
    exit_code: int
    state: str = ""  # type of its last state in Prefect, where its exit code does not say it
    closing: bool = False  # nothing is left to do: it ends an incident
    quiet: bool = False  # nobody is told unless it ends an incident
    answered: bool = True  # a fault that the run did not name is really not there
    well: bool = False  # it was judged, and nothing is wrong now
    gone: bool = False  # what the plan was for is seen gone: the judgment after it is what counts
    with_person: bool = False  # a person has it: a watch does not try the same fault again
    wrong: bool = False  # the landing page lists it: wrong, and not fixed

    @property
    def state_type(self) -> str:
        """Type of the run's last state in Prefect, by which the UI colours it: green means that nothing is left to do."""
        return self.state or ("FAILED" if self.exit_code else "COMPLETED")


C, W, I = Severity.CRITICAL, Severity.WARNING, Severity.INFO  # noqa: E741 - a table
TABLE = {
    Outcome.WAITING: OutcomeRow("Waiting", "Waiting for your decision", "waits for a decision", C, 1, state="PAUSED", with_person=True),
    Outcome.NOT_FIXED: OutcomeRow(
        "Not fixed", "NOT FIXED: the action ran, but the fault is still there", "NOT fixed: a person is needed", C, 1,
        wrong=True,
    ),
    Outcome.PARTLY_FIXED: OutcomeRow(
        "Partly fixed",
        "PARTLY FIXED: the fault is gone, but a step was not done or something else is wrong",
        "PARTLY fixed: a step was not done or something else is wrong, a person is needed",
        C,
        1,
        gone=True,
        with_person=True,
        wrong=True,
    ),
    Outcome.UNFINISHED: OutcomeRow(
        "Unfinished",
        "UNFINISHED: the process that ran it is gone",
        "unfinished: check it before anything else",
        C,
        1,
        state="CRASHED",
        answered=False,
        wrong=True,
    ),
    Outcome.UNHEALTHY: OutcomeRow("Something is wrong", "Something is wrong; nothing was changed", "something is wrong", W, 1, wrong=True),
    Outcome.REFUSED: OutcomeRow(
        "Refused by a guard", "Refused by a guard; see below what was done", "refused by a guard", W, 4, answered=False, wrong=True
    ),
    Outcome.EXPIRED: OutcomeRow("Not decided", "Not decided in time; nothing was changed", "not decided in time", W, 1, wrong=True),
    Outcome.REJECTED: OutcomeRow("Rejected", "Rejected; nothing was changed", "rejected", I, 1, with_person=True, wrong=True),
    Outcome.CANNOT_TELL: OutcomeRow("Cannot tell", "Cannot tell; a deciding reading is missing", "cannot tell", W, 3, answered=False),
    Outcome.CANCELLED: OutcomeRow(
        "Cancelled", "Cancelled before it had an answer; see below what was done", "cancelled", I, 1, state="CANCELLED"
    ),
    Outcome.FIXED: OutcomeRow("Fixed", "Fixed and verified", "fixed and verified", I, 0, closing=True, well=True, gone=True),
    Outcome.HEALTHY: OutcomeRow("Healthy", "Nothing is wrong", "healthy", I, 0, closing=True, quiet=True, well=True),
    Outcome.NOT_APPLICABLE: OutcomeRow(
        "Not applicable", "Does not apply here", "not applicable", I, 0, closing=True, quiet=True
    ),
}


def outcome_of(state: State) -> Outcome:
    """How a run ends that only looked."""
    return Outcome(state.value)
