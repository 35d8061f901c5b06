"""The reaper's part of notifying people: what a killed process left, what failed, what quiet hours held back."""

import logging
import time
from collections import defaultdict
from datetime import datetime

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.notify.delivery import LATE, deliver_run, send_all, settle
from flows.notify.delivery_turn import DeliveryTurn, take_turn
from flows.notify.grouping import end_group
from flows.notify.notify_file import load_notifications
from flows.notify.outbox import DUE, STATE, Delivery, delivery_on, message_on
from runbooks.core.outcome import Outcome
from runbooks.notify.config import Notifications
from runbooks.notify.message import Message
from runbooks.notify.text import digest_of
from tasks.notify.outgoing import Outgoing, Sent
from tasks.notify.send import send

log = logging.getLogger("flows.notify")
BUDGET_S = 10.0  # of a round of the reaper: a channel that hangs must not keep it from its other duties
Postponed = list[tuple[FlowRun, Message, Delivery]]
Taken = list[tuple[DeliveryTurn, Message, Delivery]]


def retry_pending(now: datetime) -> list[str]:
    """One round. Returns a line for each message that was sent, dropped or failed. Never raises."""
    try:
        config = load_notifications()
        return _retry(config, now) if config else []
    except Exception as e:
        log.error("notifications: %s: %s", type(e).__name__, e)
        return [f"notifications: {type(e).__name__}: {e}"]


def _retry(config: Notifications, now: datetime) -> list[str]:
    stop = time.monotonic() + BUDGET_S
    lines: list[str] = end_group(now)
    postponed: Postponed = []
    for run in sorted(store.find_runs([DUE]), key=lambda r: _rank(r)):
        if time.monotonic() > stop:
            break
        try:
            line = _one(run, config, now, postponed)
        except Exception as e:
            line = f"{run.name}: not notified: {type(e).__name__}: {e}"
        lines += [line] if line else []
    return lines + (_digest(postponed, config, now) if postponed else [])


def _rank(run: FlowRun) -> tuple[bool, int]:
    """Urgent ones first, then those that failed least often."""
    message, delivery = message_on(run), delivery_on(run)
    return not (message and message.severity.needs_somebody), delivery.tries if delivery else 0


def _one(run: FlowRun, config: Notifications, now: datetime, postponed: Postponed) -> str:
    message, delivery = message_on(run), delivery_on(run)
    if message is None or delivery is None:
        store.retag(run.id, remove=[DUE])
        return ""
    if delivery.next_at and delivery.next_at > now:
        return ""
    stale = _overtaken(run, message)
    if stale == "wait":
        return ""
    if stale:
        store.label(run.id, {STATE: delivery.model_copy(update={"done": True, "why": stale}).model_dump_json()})
        store.retag(run.id, remove=[DUE])
        return f"{run.name}: not notified: {stale}"
    if delivery.held_until:
        if delivery.held_until <= now:
            postponed.append((run, message, delivery))
        return ""
    failed = deliver_run(run, config, now)
    if failed:
        return f"{run.name}: not notified: {failed[0]}"
    done = delivery_on(store.read_run(run.id))
    return f"{run.name}: notified: {message.outcome}" if done and done.of == delivery.of and done.done else ""


def _overtaken(run: FlowRun, message: Message) -> str:
    """Why a question need not be asked any more; "wait" while its run is on the way to asking it."""
    if message.outcome is not Outcome.WAITING or run.state is None:
        return ""
    if run.state.is_paused():
        same = not message.approval_key or run.state.state_details.pause_key == message.approval_key
        return "" if same else "another question is open now"
    if run.state.is_final():
        return "the run has ended meanwhile"
    asked = any(s.is_paused() and s.state_details.pause_key == message.approval_key for s in store.states_of(run.id))
    return "decided meanwhile" if asked else "wait"


def _digest(postponed: Postponed, config: Notifications, now: datetime) -> list[str]:
    """What quiet hours held back: one message per channel."""
    if config.quiet and config.quiet.until(now):
        return []
    taken: Taken = [(turn, message, delivery) for run, message, delivery in postponed if (turn := take_turn(run, delivery, now))]
    by_channel: dict[str, Taken] = defaultdict(list)
    for entry in sorted(taken, key=lambda e: e[1].at):
        for name in config.channels_for(entry[1].labels):
            if not (before := entry[2].channels.get(name)) or not before.ok:
                by_channel[name].append(entry)
    sent: dict[str, Sent] = {}
    for name, entries in by_channel.items():
        title, body = digest_of([m for _, m, _ in entries], entries[0][1].at)
        first = entries[0][1]
        out = Outgoing(incident=f"digest-{now:%Y%m%d}", severity=first.severity, title=title, body=body)
        sent[name] = LATE if any(turn.too_late for turn, _, _ in entries) else send(config.channels[name], out)
    for turn, message, delivery in taken:
        mine = {n: s for n, s in sent.items() if n in config.channels_for(message.labels)}
        ends = [n for n, t in delivery.channels.items() if t.ref and not t.ok and n in mine and message.outcome.row.closing]
        settle(turn, message, delivery, mine | send_all(message, config, ends, delivery, now, turn), now)
    return [f"digest to {n}: {s.said}" for n, s in sent.items()]
