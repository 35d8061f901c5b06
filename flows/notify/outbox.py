"""The notification about a run: kept as labels of the run, so that it outlives the process that should deliver it.

`notify.message` is the message, `notify.state` what became of it. Runs with the tag `notify-due` are looked at by the
reaper until everything is told. Sending is in delivery.py.
"""

import hashlib
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from prefect.client.schemas.objects import FlowRun
from pydantic import ValidationError

from flows import store
from flows.notify.notify_file import load_notifications
from runbooks.core.alike import many_alike
from runbooks.core.base import Frozen
from runbooks.core.times import utc
from runbooks.notify.config import Notifications
from runbooks.notify.message import Message, grouped

log = logging.getLogger("flows.notify")
MESSAGE, STATE, PROBLEM = "notify.message", "notify.state", "notify.problem"
DUE, FAILED, MANY_OPEN = "notify-due", "notify-failed", "many-open"
LOOK_BACK = 20  # runs of an incident at a time


class Attempt(Frozen):
    """What became of a message in one channel."""

    ok: bool
    said: str
    at: datetime
    ref: str = ""


class Delivery(Frozen):
    """What became of a message."""

    of: str  # which message: Message.stamp
    tries: int = 0
    next_at: datetime | None = None
    claimed_at: datetime | None = None  # in records of before: delivery_turn.py says who sends
    held_until: datetime | None = None  # quiet hours
    channels: dict[str, Attempt] = {}
    done: bool = False
    why: str = ""  # done without sending: why


def message_on(run: FlowRun) -> Message | None:
    """The message that is kept on a run."""
    try:
        return Message.model_validate_json(str(run.labels[MESSAGE]))
    except (KeyError, ValidationError):
        return None


def delivery_on(run: FlowRun) -> Delivery | None:
    """What became of it."""
    try:
        return Delivery.model_validate_json(str(run.labels[STATE]))
    except (KeyError, ValidationError):
        return None


def labels_of(message: Message, delivery: Delivery) -> dict[str, str]:
    """Both as labels."""
    return {MESSAGE: message.model_dump_json(), STATE: delivery.model_dump_json(), PROBLEM: ""}


def prepare(message: Message, now: datetime) -> tuple[dict[str, str], tuple[str, ...]]:
    """Labels and tags of this pending message; empty when there is nothing new to say. Never raises."""
    try:
        config = load_notifications()
        return _prepare(message, config, now) if config else ({}, ())
    except Exception as e:
        log.error("no notification can be sent for this run: %s", e)
        return {PROBLEM: f"no notification can be sent: {e}"[:1000]}, (FAILED,)


def _prepare(message: Message, config: Notifications, now: datetime) -> tuple[dict[str, str], tuple[str, ...]]:
    message = message if message.outcome.row.quiet or _ends_its_own(message) else _group(message, config, now)
    last = _last_delivery(message)
    over = last is None or last[0].outcome.row.closing
    if message.outcome.row.quiet and over and not message.always:
        return {}, ()
    tags = (f"incident:{message.incident}", _alike(message))
    fresh = last is not None and now - last[0].at < timedelta(seconds=config.repeat_s)
    if last and fresh and last[0].signature == message.signature:
        why = f"already reported at {utc(last[0].at)} about run {last[0].run}"
        return labels_of(message, Delivery(of=message.stamp, done=True, why=why)), (*tags, *_many(message))
    return labels_of(message, Delivery(of=message.stamp, channels=refs(last))), (*tags, DUE, *_many(message))


def _ends_its_own(message: Message) -> bool:
    """It closes an incident that people were told of: as one of many it would leave that open."""
    last = _last_delivery(message) if message.outcome.row.closing else None
    return last is not None and not last[0].outcome.row.closing


def _many(message: Message) -> tuple[str, ...]:
    """Until all of them are well again (grouping.py)."""
    return (MANY_OPEN,) if message.others and not message.outcome.row.closing else ()


def refs(last: tuple[Message, Delivery] | None) -> dict[str, Attempt]:
    """Names of the incident's first message per channel, for replies in its thread; an ended incident has none."""
    if last is None or last[0].outcome.row.closing:
        return {}
    return {name: t.model_copy(update={"ok": False, "said": "before"}) for name, t in last[1].channels.items() if t.ref}


def _last_delivery(message: Message) -> tuple[Message, Delivery] | None:
    """The incident's newest message that was told (or is about to be), if any."""
    found: list[tuple[Message, Delivery]] = []
    asked = 0
    while not found:  # most of an incident's runs have the same news, and tell nothing
        page = store.find_runs([f"incident:{message.incident}"], limit=LOOK_BACK, offset=asked)
        if not page:
            return None
        asked += len(page)
        for run in page:
            before, delivery = message_on(run), delivery_on(run)
            if before and delivery and before.incident == message.incident and not delivery.why:
                found.append((before, delivery))
    return max(found, key=lambda pair: pair[0].at, default=None)


def _alike(message: Message) -> str:
    """The tag of runs whose news is the same but for the target."""
    facts = "\n".join((message.fleet, message.runbook, message.outcome, *sorted(message.causes)))
    return f"alike:{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def _group(message: Message, config: Notifications, now: datetime) -> Message:
    """Many targets with the same news at once are told as one incident."""
    since = now - timedelta(seconds=config.fold_s)
    runs = store.find_runs([_alike(message)], since=since - timedelta(hours=1), limit=100)
    seen = [(other.at, other.target) for other in map(message_on, runs) if other]
    targets = many_alike([*seen, (now, message.target)], now, config.fold_s, config.fold)
    return grouped(message, tuple(t for t in targets if t != message.target)) if targets else message


def label_and_mark_pending(run_id: str, labels: dict[str, str], message: Message, now: datetime) -> None:
    """Labels the run with its result and, at once with it, with what people are owed about it."""
    pending, tags = prepare(message, now)
    store.label(run_id, labels | pending)
    mark_pending(run_id, tags)


def mark_pending(run_id: str, tags: Iterable[str]) -> None:
    """Puts the tags on the run; the labels are there already."""
    if tags:
        store.retag(run_id, add=tags)
