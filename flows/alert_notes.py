"""Which alerts a run has taken up and which of them are over: kept beside the run so that no writer loses another's.

Prefect merges labels by reading and writing back, and on PostgreSQL two writers at one moment may lose one of them. So
labels of a run are written by the process that owns it; gateways leave notes: rows of their own in the run's inputs. A run
that an alert starts has that alert in its labels, from its creation: `alert.<key>` = fingerprint's mark, when it was taken up,
`since=` when it began by its sender's clock, name. An end says `ended=` by the same clock: one that is older than the newest
beginning of its alert is an old message that came (or was sent) again, and ends nothing.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun, FlowRunInput

from flows import store

ALERT_TAG = "alert"
LABEL, EARLIER = "alert.", "earlier-alert."
NOTE, TOOK, OVER = "alert-", "alert-took-", "alert-over-"
SINCE, ENDED = "since=", "ended="
MOST = 10_000
TIDY_AT, TIDIED_AT_ONCE = 200, 100


class Notes:
    """What was written about one run: its labels, then the notes in the order in which the server stored them."""

    def __init__(self, run: FlowRun, notes: Iterable[FlowRunInput] = ()) -> None:
        own = {k.removeprefix(LABEL): str(v) for k, v in run.labels.items() if k.startswith(LABEL)}
        self.by_alert = ALERT_TAG in run.tags
        self.text: dict[str, str] = {}
        self.over: dict[str, bool] = {}
        self.began: dict[str, datetime] = {}  # the newest beginning of each alert, where its sender said it
        for key, value in own.items():
            self._took(key, value)
        for note in notes:
            self.read(note)

    def read(self, note: FlowRunInput) -> bool:
        """Takes up one more note. False if it says nothing: an end of what nobody took up, or of an earlier time."""
        if note.key.startswith(TOOK):
            self._took(note.key.removeprefix(TOOK), note.value)
            return True
        mark = note.value.partition(" ")[0]
        counts = note.key.startswith(OVER) and mark in self.over and not self.is_old(mark, senders_time(note.value, ENDED))
        if counts:
            self.over[mark] = True
        return counts

    def _took(self, key: str, text: str) -> None:
        mark, since = text.partition(" ")[0], senders_time(text, SINCE)
        self.text[key], self.over[mark] = text, False
        if since is not None:
            self.began[mark] = max(since, self.began.get(mark, since))

    def is_old(self, mark: str, ended: datetime | None) -> bool:
        """True if an end is known to be older than the alert's newest beginning."""
        return ended is not None and mark in self.began and ended < self.began[mark]

    @property
    def all_over(self) -> bool:
        """True if alerts alone are why the run is there, and each of them has ended."""
        return self.by_alert and bool(self.over) and all(self.over.values())


def notes_on(run: FlowRun) -> Notes:
    """Everything about a run's alerts, read now. Of many notes, those that newer ones have made void are taken away."""
    notes = store.inputs(run.id, NOTE, MOST)
    if len(notes) >= TIDY_AT:
        for note in void(notes, run)[:TIDIED_AT_ONCE]:
            store.delete_input(run.id, note.key)
    return Notes(run, notes)


def void(notes: list[FlowRunInput], run: FlowRun) -> list[FlowRunInput]:
    """Notes without which `Notes` says the same of every alert; of alerts that are over only the newest are remembered.

    What is void stays so whatever others write meanwhile: the last note that counts about an alert decides, and its newest
    beginning which ends count. An alert's beginning is taken away before its end, which means nothing alone.
    """
    said, own = Notes(run), set(Notes(run).over)
    last: dict[str, FlowRunInput] = {}
    newest: dict[str, FlowRunInput] = {}
    for note in notes:
        mark, took = note.value.partition(" ")[0], note.key.startswith(TOOK)
        before = said.began.get(mark)
        if not said.read(note):
            continue
        last[mark] = note
        if took and (mark not in newest or before is None or said.began[mark] > before):
            newest[mark] = note
    late = {note.key for note in notes[-TIDY_AT // 2 :]}
    gone = {
        mark for mark, note in last.items() if note.key.startswith(OVER) and note.key not in late and mark not in own
    }
    needed = {n.key for mark in set(last) - gone for n in (last[mark], newest.get(mark)) if n} | late
    left = [note for note in notes if note.key not in needed]
    return sorted(left, key=lambda note: not note.key.startswith(TOOK))


def note_taken(run: FlowRun, key: str, text: str) -> None:
    """The run takes up one more alert: `text` is its mark, time and name."""
    store.store_input_once(run.id, TOOK + key, text)


def note_over(run: FlowRun, mark: str, at: datetime, ended: datetime | None = None) -> None:
    """That alert has ended, and when by its sender's clock."""
    said = f" {ENDED}{ended.isoformat(timespec='milliseconds')}" if ended else ""
    store.store_input_once(run.id, f"{OVER}{mark}-{uuid4().hex[:12]}", f"{mark} {at.isoformat()}{said}")


def resolved(run: FlowRun) -> bool:
    """True if nothing of what started this run is left: it must not act."""
    return ALERT_TAG in run.tags and notes_on(run).all_over


def times(text: str) -> tuple[str, datetime] | None:
    """(mark, when) of an alert that was taken up, from its label or note."""
    words = text.split(" ", 2)
    return (words[0], datetime.fromisoformat(words[1])) if len(words) >= 2 else None


def senders_time(text: str, word: str) -> datetime | None:
    """What a label or note says of its sender's clock, right after the time at which it was taken up; None: nothing."""
    third = text.split(" ", 3)[2:3]
    if not third or not third[0].startswith(word):
        return None
    try:
        return datetime.fromisoformat(third[0].removeprefix(word))
    except ValueError:  # an alert's name that begins so, from before
        return None
