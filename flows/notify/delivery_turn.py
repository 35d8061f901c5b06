"""Who sends a try of a message: a row beside its run, which the server gives to one asker. A sender that died is followed.

    telling-<message>-<try>-<k>    the k-th process that took this try, because the one before was silent for CLAIM_S

A sender begins to send within BEGIN_S of its row, by each of two clocks, and a channel answers within LIMIT_S: so its
successor does not send beside it. Left open: a process that is stopped (SIGSTOP, a paused machine) between its last look
at the clock and the system call that sends, for longer than CLAIM_S; then a message may come twice.
"""

import time
from datetime import datetime, timedelta
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.notify.outbox import Delivery, delivery_on
from tasks.notify.send import LIMIT_S

CLAIM_S = 60.0  # a process that took a try and is silent for so long is gone
BEGIN_S = CLAIM_S - LIMIT_S - 2.0
MOST_ROWS = 1000


class DeliveryTurn:
    """The right of this process to make one try."""

    def __init__(self, run: FlowRun, row: str, after: str) -> None:
        self.run, self.row, self.after = run, row, after
        self._at = (time.monotonic(), time.time())

    @property
    def too_late(self) -> bool:
        """True if this process was held up: it may not begin to send any more."""
        return max(b - a for a, b in zip(self._at, (time.monotonic(), time.time()), strict=True)) > BEGIN_S

    def lost(self) -> bool:
        """True if another process has followed: what became of the try is its to write down."""
        return store.read_input(self.run.id, self.after) is not None


def take_turn(run: FlowRun, delivery: Delivery, now: datetime) -> DeliveryTurn | None:
    """The right to make the next try of the message that `told` is about; None if another process has it.

    `told` is what the caller goes by: if more has become of the message by now, nobody sends on its word.
    """
    name = f"telling-{delivery.of.replace('.', '-')}-{delivery.tries}-"
    rows = store.inputs(run.id, name, MOST_ROWS)
    newest = rows[-1].created if rows else None
    if newest is not None and now - newest < timedelta(seconds=CLAIM_S):
        return None
    turn = DeliveryTurn(run, f"{name}{len(rows)}", f"{name}{len(rows) + 1}")
    mine = uuid4().hex
    if store.store_input_once(run.id, turn.row, mine) != mine:
        return None
    return turn if delivery_on(store.read_run(run.id)) == delivery else None
