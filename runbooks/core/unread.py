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
from runbooks.core.reading_words import WayStep, label, noun, own_name, spoken, words_of
from runbooks.core.verdict import Diagnosis, State

MOST_NAMED = 3  # readings in a headline


class ReadingAt(Frozen):
    """One reading of an evidence, whatever it gave."""

    path: str  # "tiers[].space": as runbook.yaml names it
    way: tuple[WayStep, ...] = ()  # from the evidence down to it
    items: tuple[str, ...] = ()  # names of the items of lists it stands in: ("nvme",)
    absent: bool = False  # proven to be nothing

    @property
    def label(self) -> str:
        """What people call it: "space of tier nvme"."""
        return spoken(self.way)


class Lost(ReadingAt):
    """A reading that is unknown."""

    reading: Unknown

    @property
    def why(self) -> str:
        """Its reason, and what was said."""
        return self.reading.why


def as_far_as_read(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment as far as what was read allows it."""
    lost = unread(evidence)
    if not lost or found.state is State.NOT_APPLICABLE:
        return found
    blind = {x.path for x in lost}
    open_ = tuple(x for x in lost if not covered(book, x, blind))
    new: dict[str, Any] = {"unknowns": _named(book, type(evidence), found.unknowns, lost, open_)}
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
    return _inside(evidence, ReadingAt(path=""), type(evidence))


def _named(book: Runbook, kind: type[BaseModel], own: Sequence[str], lost: Sequence[Lost], open_: Sequence[Lost]) -> tuple[str, ...]:
    """What the judgment itself leaves open, and a line for each lost reading. What nobody asked for and is covered is no gap."""
    gaps = [x for x in lost if x in open_ or x.reading.reason is not UnknownReason.NOT_ASKED]
    return tuple(dict.fromkeys((*own, *(_line(book, kind, x, x in open_) for x in gaps))))


def _line(book: Runbook, kind: type[BaseModel], gap: Lost, needed: bool) -> str:
    if needed:
        return f"{gap.label}: {gap.why}"
    cover = book.may_be_unread[gap.path]
    return f"{gap.label}: {gap.why} (covered by {', '.join(words_of(kind, p) for p in cover.covered_by)}: {cover.because})"


def _headline(open_: Sequence[Lost], headline: str) -> str:
    names = ", ".join(x.label for x in open_[:MOST_NAMED])
    more = f" and {len(open_) - MOST_NAMED} more" if len(open_) > MOST_NAMED else ""
    return f"cannot tell: not read: {names}{more} ({open_[0].why}). As far as it was read: {headline}"


def _inside(value: BaseModel, at: ReadingAt, root: type[BaseModel]) -> Iterator[ReadingAt]:
    """Of an evidence inside the evidence the paths begin anew."""
    path = f"{at.path}." if at.path and type(value) is not root else ""
    for field in fields_with_readings(type(value)):
        below = ReadingAt(path=path + field, way=(*at.way, WayStep(label(type(value), field))), items=at.items)
        yield from _walk(getattr(value, field), below, root, (type(value), field))


def _walk(value: Any, at: ReadingAt, root: type[BaseModel], of: tuple[type[BaseModel], str]) -> Iterator[ReadingAt]:
    """`of`: the field that the value stands in, or is an item of."""
    if isinstance(value, Unknown):
        yield Lost(path=at.path, way=at.way, items=at.items, reading=value)
    elif isinstance(value, Known | Absent):
        yield at.model_copy(update={"absent": isinstance(value, Absent)})
        if isinstance(value, Known):
            way = (*at.way[:-1], at.way[-1]._replace(read=not at.way[-1].item))
            yield from _walk(value.value, at.model_copy(update={"way": way}), root, of)
    elif isinstance(value, tuple | Mapping):
        yield from _items(value, at, root, of)
    elif isinstance(value, BaseModel):
        yield from _inside(value, at, root)


def _items(value: Any, at: ReadingAt, root: type[BaseModel], of: tuple[type[BaseModel], str]) -> Iterator[ReadingAt]:
    pairs = value.items() if isinstance(value, Mapping) else ((own_name(item), item) for item in value)
    for i, (key, item) in enumerate(pairs):
        if isinstance(item, BaseModel | tuple | Mapping):  # not each line of a log
            word = WayStep(f"{noun(*of)} {key or i + 1}", item=True)
            yield from _walk(item, ReadingAt(path=f"{at.path}[]", way=(*at.way, word), items=(*at.items, str(key or i))), root, of)


@cache
def fields_with_readings(kind: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a model below which a reading may stand."""
    return tuple(n for n, f in kind.model_fields.items() if _may_hold(f.annotation, frozenset({kind})))


def _may_hold(annotation: Any, seen: frozenset[Any]) -> bool:
    if annotation is Unknown or annotation in seen:
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.values()
        return annotation is not Absent and any(_may_hold(f.annotation, seen | {annotation}) for f in fields)
    return any(_may_hold(a, seen) for a in get_args(annotation))
