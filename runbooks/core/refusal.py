"""Why a guard refuses: one code for each kind of no, with what it means and what a person does about it."""

from enum import StrEnum
from typing import NamedTuple

from runbooks.core.base import Frozen

CODES = "refused"  # label of a run: the codes of every no in it, with commas


class RefusalCode(StrEnum):
    """The kinds of refusal. A probe on a node sends the same words."""

    MODE = "mode"
    NEEDS_APPROVAL = "needs-approval"
    POLICY = "policy"
    HANDS_OFF = "hands-off"
    NOT_CONFIRMED = "not-confirmed"
    UNKNOWN_ACTION = "unknown-action"
    BAD_ARGUMENTS = "bad-arguments"
    COOLDOWN = "cooldown"
    ATTEMPTS_SPENT = "attempts-spent"
    LAST_NOT_PROVEN = "last-not-proven"
    FROZEN = "frozen"
    BREAKER_OPEN = "breaker-open"
    BUDGET_SPENT = "budget-spent"
    COMMON_CAUSE = "common-cause"
    OWNER_BUSY = "owner-busy"
    EXPIRED = "expired"
    REJECTED = "rejected"
    APPROVAL_SPENT = "approval-spent"
    ALERT_RESOLVED = "alert-resolved"
    SUPERSEDED = "superseded"
    EARLIER_STEP = "earlier-step"
    CONFIG = "config"
    TARGET_CHANGED = "target-changed"
    IN_USE = "in-use"
    WOULD_OVERWRITE = "would-overwrite"
    NOT_OURS = "not-ours"
    NOT_SUPPORTED = "not-supported"
    CANNOT_CHECK = "cannot-check"

    @property
    def row(self) -> "RefusalRow":
        """Everything that is said about it."""
        return TABLE[self]


class RefusalRow(NamedTuple):
    """One line of the table."""

    meaning: str
    do: str  # what a person does


class Refusal(Frozen):
    """One guard's no."""

    code: RefusalCode
    why: str

    def __str__(self) -> str:
        return self.why


TABLE = {
    RefusalCode.MODE: RefusalRow("The run was started only to diagnose, or only to ask.",
        "Approve the plan, or start the run in another `--mode`."),
    RefusalCode.NEEDS_APPROVAL: RefusalRow("This action needs a person's decision.", "Approve or reject the plan."),
    RefusalCode.POLICY: RefusalRow("The policy file does not allow this action.", "Do it by hand, or change the policy file."),
    RefusalCode.HANDS_OFF: RefusalRow(
        "The target is opted out: in the fleet file, by a container's label, or locked by its provider.",
        "Ask the person who opted it out.",
    ),
    RefusalCode.NOT_CONFIRMED: RefusalRow("The plan needs a confirmed cause.", "Read what would decide it in the report, and run again."),
    RefusalCode.UNKNOWN_ACTION: RefusalRow("This engine has no such action.", "Update the engine, or do it by hand."),
    RefusalCode.BAD_ARGUMENTS: RefusalRow("A step's arguments do not fit its kind.", "Run again for a new plan, or do it by hand."),
    RefusalCode.COOLDOWN: RefusalRow("The same action was done here a short time ago.", "Wait, or approve it."),
    RefusalCode.ATTEMPTS_SPENT: RefusalRow("The same action was done here too often.", "Escalate: it does not help."),
    RefusalCode.LAST_NOT_PROVEN: RefusalRow("The last such action here was not seen to work.",
        "Look at the target, then approve or escalate."),
    RefusalCode.FROZEN: RefusalRow("A freeze is in force.", "Wait, or end it with `gpu-runbooks unfreeze`."),
    RefusalCode.BREAKER_OPEN: RefusalRow(
        "The fleet's breaker has tripped.", "Find out why, then reset it with `gpu-runbooks reset-breaker`."
    ),
    RefusalCode.BUDGET_SPENT: RefusalRow(
        "Too many nodes were changed in the window; the breaker has tripped.",
        "Find out why so many fail, then reset it with `gpu-runbooks reset-breaker`.",
    ),
    RefusalCode.COMMON_CAUSE: RefusalRow("Many targets fail alike at one time.", "Look for the common cause; fix that."),
    RefusalCode.OWNER_BUSY: RefusalRow("Another run works on the same target.", "Wait for it; `gpu-runbooks status` names it."),
    RefusalCode.EXPIRED: RefusalRow("The time to decide or to begin has passed.", "Start the run again."),
    RefusalCode.REJECTED: RefusalRow("A person rejected the plan.", "Nothing."),
    RefusalCode.APPROVAL_SPENT: RefusalRow("This approval was used once.", "Start the run again."),
    RefusalCode.ALERT_RESOLVED: RefusalRow("The alert that started the run was resolved.", "Nothing, unless the fault is still there."),
    RefusalCode.SUPERSEDED: RefusalRow("The run was ended, or another process took it over.", "Read the newest report of the run."),
    RefusalCode.EARLIER_STEP: RefusalRow("An earlier step of the plan was not done.", "See why that step was not done."),
    RefusalCode.CONFIG: RefusalRow("The fleet or policy file no longer fits the plan.", "Correct the file, then run again."),
    RefusalCode.TARGET_CHANGED: RefusalRow("The target is not what was judged.", "Run again: it judges what is there now."),
    RefusalCode.IN_USE: RefusalRow("What would be changed is alive or in use.", "End its use, or leave it alone."),
    RefusalCode.WOULD_OVERWRITE: RefusalRow("The new name is taken, and nothing is replaced.", "Look at what is there, then run again."),
    RefusalCode.NOT_OURS: RefusalRow("It does not belong to what this engine may change.", "Do it by hand if it is right."),
    RefusalCode.NOT_SUPPORTED: RefusalRow("It cannot be done there, or not safely.", "Do it by hand as the report shows."),
    RefusalCode.CANNOT_CHECK: RefusalRow(
        "What must be known before a change could not be read.", "Restore the access that the message names, then run again."
    ),
}
