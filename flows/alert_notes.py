"""Which alerts a run has taken up and which of them are over: kept beside the run so that no writer loses another's.

Prefect merges labels by reading and writing back, and on PostgreSQL two writers at one moment may lose one of them. So
labels of a run are written by the process that owns it; gateways leave notes: rows of their own in the run's inputs. A run
that an alert starts has that alert in its labels, from its creation: `alert.<key>` = fingerprint's mark, time, name.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun, FlowRunInput

from flows import store

ALERT_TAG = "alert"
LABEL, EARLIER = "alert.", "earlier-alert."
NOTE, TOOK, OVER = "alert-", "alert-took-", "alert-over-"
MOST = 10_000
TIDY_AT, TIDIED_AT_ONCE = 200, 100


class Notes:
    """What was written about one run: its labels, then the notes in the order in which the server stored them."""

    def __init__(self, run: FlowRun, notes: Iterable[FlowRunInput] = ()) -> None:
        own = {k.removeprefix(LABEL): str(v) for k, v in run.labels.items() if k.startswith(LABEL)}
        self.by_alert = ALERT_TAG in run.tags
        self.taken = {key: value.partition(" ")[0] for key, value in own.items()}
        self.text = dict(own)
        self.over = dict.fromkeys(self.taken.values(), False)
        for note in notes:
            self._read(note)

    def _read(self, note: FlowRunInput) -> None:
        mark = note.value.partition(" ")[0]
        if note.key.startswith(TOOK):
            self.text[note.key.removeprefix(TOOK)] = note.value
            self.taken[note.key.removeprefix(TOOK)] = mark
            self.over[mark] = False
        elif note.key.startswith(OVER) and mark in self.over:
            self.over[mark] = True

    @property
    def all_over(self) -> bool:
        """True if alerts alone are why the run is there, and each of them has ended."""
        return self.by_alert and bool(self.over) and all(self.over.values())


def notes_on(run: FlowRun) -> Notes:
    """Everything about a run's alerts, read now. Of many notes, those that newer ones have made void are taken away."""
    notes = store.inputs(run.id, NOTE, MOST)
    if len(notes) >= TIDY_AT:
        for note in void(notes, set(Notes(run).over))[:TIDIED_AT_ONCE]:
            store.delete_input(run.id, note.key)
    return Notes(run, notes)


def void(notes: list[FlowRunInput], own: set[str]) -> list[FlowRunInput]:
    """Notes without which `Notes` says the same of every alert; of alerts that are over only the newest are remembered.

    What is void stays so whatever others write meanwhile: the last note about an alert decides. `own`: alerts that stand in
    the run's labels. An alert's beginning is taken away before its end, which means nothing alone.
    """
    last = {note.value.partition(" ")[0]: note for note in notes}
    began = {note.value.partition(" ")[0]: note for note in notes if note.key.startswith(TOOK)}
    late = {note.key for note in notes[-TIDY_AT // 2 :]}
    gone = {
        mark for mark, note in last.items() if note.key.startswith(OVER) and note.key not in late and mark not in own
    }
    needed = {n.key for mark in set(last) - gone for n in (last[mark], began.get(mark)) if n} | late
    left = [note for note in notes if note.key not in needed]
    return sorted(left, key=lambda note: not note.key.startswith(TOOK))


def note_taken(run: FlowRun, key: str, text: str) -> None:
    """The run takes up one more alert: `text` is its mark, time and name."""
    store.claim_input(run.id, TOOK + key, text)


def note_over(run: FlowRun, mark: str, at: datetime) -> None:
    """That alert has ended."""
    store.claim_input(run.id, f"{OVER}{mark}-{uuid4().hex[:12]}", f"{mark} {at.isoformat()}")


def resolved(run: FlowRun) -> bool:
    """True if nothing of what started this run is left: it must not act."""
    return ALERT_TAG in run.tags and notes_on(run).all_over


def times(text: str) -> tuple[str, datetime] | None:
    """(mark, when) of an alert that was taken up, from its label or note."""
    words = text.split(" ", 2)
    return (words[0], datetime.fromisoformat(words[1])) if len(words) >= 2 else None
