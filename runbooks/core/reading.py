"""What one look at the world can give: a value, a proven absence, or a reason why it is not known."""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from runbooks.core.base import Frozen

T = TypeVar("T")
ODD_ANSWER = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a parser of another program's answer raises where the answer has a form that it does not know: a reader makes it Unknown."""


class UnknownReason(StrEnum):
    """Why a reading is unknown. Each asks something else of the operator."""

    DENIED = "denied"
    TIMED_OUT = "timed-out"
    TOOL_MISSING = "tool-missing"
    UNREACHABLE = "unreachable"
    UNPARSABLE = "unparsable"
    FAILED = "failed"
    NOT_RECORDED = "not-recorded"
    NOT_ASKED = "not-asked"

    @property
    def words(self) -> str:
        """As a person reads it: "timed out"."""
        return self.value.replace("-", " ")


class Source(Frozen):
    """Where a reading came from, so that a person can repeat it by hand."""

    command: str  # shell-quoted command line, or "GET url", or the library call
    host: str  # fleet name of the machine on which it ran
    taken_at: datetime | None = None  # UTC
    excerpt: str = ""  # the lines of output that matter, secrets already replaced


class Known(Frozen, Generic[T]):
    """A value that was read."""

    kind: Literal["known"] = "known"
    value: T
    source: Source | None = None


class Absent(Frozen):
    """Proof that there is nothing to read (no GPU, no Docker): an answer, not a worry."""

    kind: Literal["absent"] = "absent"
    proof: str
    source: Source | None = None


class Unknown(Frozen):
    """No answer. Never healthy, and nothing that needed it may act."""

    kind: Literal["unknown"] = "unknown"
    reason: UnknownReason
    detail: str = ""
    source: Source | None = None

    @property
    def why(self) -> str:
        """The reason, and what was said: "denied: only root reads it"."""
        return f"{self.reason.words}: {self.detail}" if self.detail else self.reason.words


if TYPE_CHECKING:
    Reading = Annotated[Known[T] | Absent | Unknown, Field(discriminator="kind")]
else:

    class Reading:
        """Pydantic makes `Known[T]` with a bare type variable `Known`: the alias above is not generic at run time."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Known[item] | Absent | Unknown, Field(discriminator="kind")]


"""Use as a field type: ``gpus: Reading[tuple[Gpu, ...]]``. As a default: ``NOT_RECORDED``."""

NOT_RECORDED = Unknown(reason=UnknownReason.NOT_RECORDED)


def value_or(reading: "Known[T] | Absent | Unknown", default: T) -> T:
    """The value if known, else `default`. For display and for absences that mean 'none'."""
    return reading.value if isinstance(reading, Known) else default


def value_of(reading: "Known[T] | Absent | Unknown") -> T | None:
    """The value if known, else None. For display."""
    return reading.value if isinstance(reading, Known) else None
