"""Events of several sources in the order of time, and those that a person asks for. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead

_BEFORE = datetime(1, 1, 1, tzinfo=UTC)
_OF_AN_ID = frozenset("-_.")


def merged(events: Iterable[LoggedEvent]) -> list[LoggedEvent]:
    """By time; events of one time stay as their sources gave them, one without a time stands before those with one."""
    return sorted(events, key=lambda e: e.at or _BEFORE)


def names(text: str, id: str) -> bool:
    """Whether the text names this id, and not a longer one that contains it."""
    at = text.find(id)
    while at >= 0:
        end = at + len(id)
        before, after = text[at - 1 : at], text[end : end + 1]
        beyond = text[end + 1 : end + 2]
        goes_on = after.isalnum() or (after in _OF_AN_ID and bool(after) and beyond.isalnum() and after != ".")
        if not (before.isalnum() or before in ("-", "_") or goes_on):
            return True
        at = text.find(id, at + 1)
    return False


def wanted(
    event: LoggedEvent, since: datetime | None, until: datetime | None, worker: str = "", task: str = ""
) -> bool:
    """Whether a person asks for it. What has no time stays: it could be of any."""
    if event.at is not None and ((since and event.at < since) or (until and event.at > until)):
        return False
    if worker and event.worker != worker and not names(event.text, worker):
        return False
    return not task or event.task == task or names(event.text, task)


def in_window(source: SourceRead, since: datetime | None) -> SourceRead:
    """A source that was cut, but goes back further than what is asked for, is whole for the asker."""
    reaches = source.state is ReadState.CUT and since is not None and source.first is not None and source.first < since
    return source.model_copy(update={"state": ReadState.WHOLE, "why": ""}) if reaches else source
