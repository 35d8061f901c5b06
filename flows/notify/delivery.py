"""Delivers pending notifications: in the run's own process at once, by the reaper what is left. Never fails or delays a fix."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.clock import server_now
from flows.notify.delivery_links import links_for
from flows.notify.delivery_turn import DeliveryTurn, take_turn
from flows.notify.notify_file import load_notifications
from flows.notify.outbox import DUE, FAILED, PROBLEM, STATE, Attempt, Delivery, delivery_on, message_on
from runbooks.notify.config import Notifications
from runbooks.notify.message import Message
from runbooks.notify.text import body_of, title_of
from tasks.notify.outgoing import Outgoing, Sent
from tasks.notify.send import send

log = logging.getLogger("flows.notify")
log.setLevel(logging.INFO)
MOST_TRIES = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 15.0, 900.0
EVENT_FAILED = "gpu-runbooks.notification.failed"


def deliver(run_id: str) -> tuple[str, ...]:
    """Sends what is owed about a run, as far as it can be sent now. Returns what failed. Never raises."""
    try:
        config = load_notifications()
        run = store.read_run(run_id)
        if config is None or DUE not in run.tags:
            return ()
        return deliver_run(run, config, server_now())
    except Exception as e:
        log.error("no notification was sent: %s: %s", type(e).__name__, e)
        return (f"no notification was sent yet ({type(e).__name__}); the reaper retries",)


def deliver_run(run: FlowRun, config: Notifications, now: datetime) -> tuple[str, ...]:
    """One round for one run: claim, send to each channel that has not got it, write down."""
    message, delivery = message_on(run), delivery_on(run)
    if message is None or delivery is None or delivery.done or delivery.of != message.stamp:
        store.retag(run.id, remove=[DUE])
        return ()
    until = None if message.severity.needs_somebody or not config.quiet else config.quiet.until(now)
    names = [n for n in config.channels_for(message.labels) if not delivery.channels.get(n, MISSING).ok]
    if until:
        _hold(run, message, config, names, delivery, until, now)
        return ()
    turn = take_turn(run, delivery, now)
    return settle(turn, message, delivery, send_all(message, config, names, delivery, now, turn), now) if turn else ()


def _hold(
    run: FlowRun, message: Message, config: Notifications, names: list[str], delivery: Delivery, until: datetime, now: datetime
) -> None:
    """Nothing is sent until then, but the end of an incident to channels that keep it together: it disturbs nobody, and
    an open one would escalate."""
    closing = message.outcome.row.closing and not delivery.held_until
    ends = [n for n in names if delivery.channels.get(n, MISSING).ref] if closing else []
    turn = take_turn(run, delivery, now) if ends else None
    if ends and turn is None:
        return
    sent = send_all(message, config, ends, delivery, now, turn) if turn else {}
    done = {n: Attempt(ok=s.ok, said=s.said, at=now, ref=s.ref or delivery.channels[n].ref) for n, s in sent.items()}
    write(run, delivery.model_copy(update={"held_until": until, "channels": delivery.channels | done}))


LATE = Sent(ok=False, said="not started in its time: this process was held up")
MISSING = Attempt(ok=False, said="", at=datetime.min)  # noqa: DTZ901 - never compared


def send_all(
    message: Message, config: Notifications, names: list[str], delivery: Delivery, now: datetime, turn: DeliveryTurn
) -> dict[str, Sent]:
    """Sends to these channels at once."""

    def one(name: str) -> Sent:
        if turn.too_late:
            return LATE
        channel = config.channels[name]
        links = links_for(message, config, channel.person, now)
        before = delivery.channels.get(name)
        out = Outgoing(
            incident=message.incident,
            severity=message.severity,
            title=title_of(message),
            body=body_of(message, links),
            closing=message.outcome.row.closing,
            link=next(iter(links.values()), ""),
            earlier=before.ref if before else "",
        )
        return send(channel, out)

    with ThreadPoolExecutor(max_workers=max(1, min(8, len(names)))) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def settle(turn: DeliveryTurn, message: Message, delivery: Delivery, sent: dict[str, Sent], now: datetime) -> tuple[str, ...]:
    """Writes down what became of a round; says so aloud where it failed."""
    run = turn.run
    if turn.lost():
        return ()
    tries = delivery.tries + 1
    channels = delivery.channels | {n: Attempt(ok=s.ok, said=s.said, at=now, ref=s.ref) for n, s in sent.items()}
    failed = tuple(f"{n}: {s.said}" for n, s in sent.items() if not s.ok)
    over = bool(failed) and tries >= MOST_TRIES
    pause = timedelta(seconds=min(FIRST_PAUSE_S * 4 ** (tries - 1), LONGEST_PAUSE_S))
    update = {
        "tries": tries,
        "channels": channels,
        "claimed_at": None,
        "done": not failed or over,
        "next_at": now + pause if failed and not over else None,
        "why": "could not be sent" if over and not any(t.ok for t in channels.values()) else "",
    }
    ended = "given up" if over else f"try {tries} of {MOST_TRIES}"
    problem = f"{'; '.join(failed)} ({ended})" if failed else ""
    write(run, delivery.model_copy(update=update), problem)
    for name, s in sent.items():
        log.log(logging.INFO if s.ok else logging.ERROR, "notified %s of “%s”: %s", name, message.outcome, s.said)
    if not failed or over:
        store.retag(run.id, add=[FAILED] if over else [], remove=[DUE])
    if failed:
        _say_undelivered(run, problem)
    return (problem,) if problem else ()


def write(run: FlowRun, delivery: Delivery, problem: str | None = None) -> None:
    """Writes the state, unless the run owes a newer message by now."""
    known = delivery_on(store.read_run(run.id))
    if known is None or known.of == delivery.of:
        store.label(run.id, {STATE: delivery.model_dump_json()} | ({} if problem is None else {PROBLEM: problem[:1000]}))


def _say_undelivered(run: FlowRun, problem: str) -> None:
    """An event, for automations; a nudge, never the record."""
    try:
        from prefect.events import emit_event

        emit_event(
            event=EVENT_FAILED,
            resource={"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": run.name},
            payload={"problem": problem},
        )
    except Exception as e:
        log.debug("no event: %s", e)
