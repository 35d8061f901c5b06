"""Which orders of a remedy the rest of the same report speaks against: they are left out, as forbidden.py withholds plans. Pure."""

from collections.abc import Iterable, Sequence

from runbooks.core.forbidden import NAMED, ids_of, named_by, stands
from runbooks.core.knowledge import Runbook
from runbooks.core.verdict import Cause, Finding


class NotDone(str):
    """A line that says why something is not done from here, with the kind of action and the ids that it is about."""

    kind: str
    about: frozenset[str]

    def __new__(cls, line: str, kind: str = "", about: Iterable[object] = ()) -> "NotDone":
        """`about`: ids as subjects of causes name them; none: whatever the report is about."""
        made = super().__new__(cls, line)
        made.kind, made.about = kind, frozenset(map(str, about))
        return made


def spoken_against(book: Runbook, causes: Sequence[Cause], findings: Sequence[Finding], notes: Iterable[str]) -> tuple[Cause, ...]:
    """The causes, each with the kinds that its remedy asks for and that another cause, a finding or a note speaks against.

    `notes`: the other lines of the report; only a NotDone counts."""
    told = tuple(x for x in notes if isinstance(x, NotDone))
    return tuple(c.model_copy(update={"withheld": kinds}) if (kinds := _kinds(book, c, causes, findings, told)) else c for c in causes)


def _kinds(book: Runbook, cause: Cause, causes: Sequence[Cause], findings: Sequence[Finding], notes: Sequence[NotDone]) -> tuple[str, ...]:
    orders = book.causes[cause.slug].orders
    if not orders:
        return ()
    others = [c for c in causes if c.slug != cause.slug and stands(c)]
    here = [c for c in others if ids_of(cause.subject) & ids_of(c.subject) and not _first(book, cause, c)]
    against = {kind for known in named_by(book, others, findings) for kind in known.forbids}
    against |= {kind for c in here for kind in book.causes[c.slug].forbids_on_it}
    against |= {n.kind for n in notes if not n.about or not NAMED.search(cause.subject) or ids_of(cause.subject) & n.about}
    return tuple(kind for kind in orders if kind in against)


def _first(book: Runbook, cause: Cause, other: Cause) -> bool:
    """Whether the other one only follows from it."""
    before = book.causes[other.slug].caused_by
    return "*" in before or cause.slug in before
