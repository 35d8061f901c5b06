"""What was not read is never well: what is unknown in the evidence is compared with runbook.yaml.

A healthy verdict needs every reading; those that `may_be_unread` names may be lost, as long as what covers them was read.
Whatever was not read is named. What a cause or a plan needs is judged in confirmed.py. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from runbooks.core.base import Frozen
from runbooks.core.knowledge import Runbook
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Diagnosis, State

NAMES = ("path", "node", "worker", "tier", "index", "name", "id")  # what tells one item of a list from the next
MOST_NAMED = 3  # readings in a headline


class ReadingAt(Frozen):
    """One reading of an evidence, whatever it gave."""

    path: str  # "tiers[].space": as runbook.yaml names it
    label: str  # "tiers[nvme].space"
    items: tuple[str, ...] = ()  # names of the items of lists it stands in: ("nvme",)
    absent: bool = False  # proven to be nothing


class Lost(ReadingAt):
    """A reading that is unknown."""

    reading: Unknown

    @property
    def why(self) -> str:
        """Its reason, and what was said."""
        return self.reading.why


def held(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment as far as what was read allows it."""
    lost = unread(evidence)
    if not lost or found.state is State.NOT_APPLICABLE:
        return found
    blind = {x.path for x in lost}
    open_ = tuple(x for x in lost if not covered(book, x, blind))
    new: dict[str, Any] = {"unknowns": _named(book, found.unknowns, lost, open_)}
    if found.state is State.HEALTHY and open_:
        new |= {"state": State.CANNOT_TELL, "headline": _headline(open_, found.headline)}
    return found.model_copy(update=new)


def covered(book: Runbook, lost: Lost, blind: set[str]) -> bool:
    """Whether runbook.yaml names what covers this reading, and that was read."""
    cover = book.may_be_unread.get(lost.path)
    if cover is None or (cover.if_not_asked and lost.reading.reason is not UnknownReason.NOT_ASKED):
        return False
    return not blind.intersection(cover.covered_by)


def unread(evidence: BaseModel) -> tuple[Lost, ...]:
    """Every unknown reading, in the order of the evidence. Evidence nested in itself is named like the outer one."""
    return tuple(look for look in readings_of(evidence) if isinstance(look, Lost))


def missing(evidence: BaseModel) -> tuple[str, ...]:
    """A line for each reading that failed; not for what nobody asked for, and what an older record does not have."""
    return tuple(
        f"{x.label}: {x.why}" for x in unread(evidence) if x.reading.reason not in (UnknownReason.NOT_ASKED, UnknownReason.NOT_RECORDED))


def readings_of(evidence: BaseModel) -> Iterator[ReadingAt]:
    """Every reading, in the order of the evidence, those that stand in another reading too."""
    return _walk(evidence, ReadingAt(path="", label=""), type(evidence))


def _named(book: Runbook, own: Sequence[str], lost: Sequence[Lost], open_: Sequence[Lost]) -> tuple[str, ...]:
    """What the judgment itself leaves open, and a line for each lost reading. What nobody asked for and is covered is no gap."""
    gaps = [x for x in lost if x in open_ or x.reading.reason is not UnknownReason.NOT_ASKED]
    return tuple(dict.fromkeys((*own, *(_line(book, x, x in open_) for x in gaps))))


def _line(book: Runbook, gap: Lost, needed: bool) -> str:
    if needed:
        return f"{gap.label}: {gap.why}"
    cover = book.may_be_unread[gap.path]
    return f"{gap.label}: {gap.why} (covered by {', '.join(cover.covered_by)}: {cover.because})"


def _headline(open_: Sequence[Lost], headline: str) -> str:
    names = ", ".join(x.label for x in open_[:MOST_NAMED])
    more = f" and {len(open_) - MOST_NAMED} more" if len(open_) > MOST_NAMED else ""
    return f"cannot tell: not read: {names}{more} ({open_[0].why}). As far as it was read: {headline}"


def _walk(value: Any, at: ReadingAt, root: type[BaseModel]) -> Iterator[ReadingAt]:
    if isinstance(value, Unknown):
        yield Lost(path=at.path, label=at.label, items=at.items, reading=value)
    elif isinstance(value, Known | Absent):
        yield at.model_copy(update={"absent": isinstance(value, Absent)})
        yield from _walk(value.value, at, root) if isinstance(value, Known) else ()
    elif isinstance(value, tuple | Mapping):
        pairs = value.items() if isinstance(value, Mapping) else ((_name(item, i), item) for i, item in enumerate(value))
        for name, item in pairs:
            if isinstance(item, BaseModel | tuple | Mapping):  # not each line of a log
                yield from _walk(item, _below(at, f"[{name}]", "[]", str(name)), root)
    elif isinstance(value, BaseModel):
        base = at if type(value) is not root else at.model_copy(update={"path": ""})
        for field in _fields(type(value)):
            yield from _walk(getattr(value, field), _below(base, f".{label(type(value), field)}", f".{field}"), root)


def _below(at: ReadingAt, label: str, path: str, *item: str) -> ReadingAt:
    return ReadingAt(path=(at.path + path).lstrip("."), label=(at.label + label).lstrip("."), items=(*at.items, *item))


def label(kind: type[BaseModel], field: str) -> str:
    """What people call a reading: the title of its field, else its name."""
    return kind.model_fields[field].title or field.replace("_", " ")


def _name(item: Any, position: int) -> str:
    thing = item.value if isinstance(item, Known) else item
    return next((str(v) for n in NAMES if isinstance(v := getattr(thing, n, None), str | int) and v != ""), str(position))


@cache
def _fields(kind: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a model below which a reading may stand."""
    return tuple(n for n, f in kind.model_fields.items() if _may_hold(f.annotation, frozenset({kind})))


def _may_hold(annotation: Any, seen: frozenset[Any]) -> bool:
    if annotation is Unknown or annotation in seen:
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.values()
        return annotation is not Absent and any(_may_hold(f.annotation, seen | {annotation}) for f in fields)
    return any(_may_hold(a, seen) for a in get_args(annotation))
