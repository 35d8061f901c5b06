"""A rehearsal that is broken off: whatever ends it, ends it in one way, and it takes all away that it made."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from runbooks.core.error_text import error_text

ENDS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
"""The terminal is gone (or whoever started the rehearsal), it is told to end, Ctrl-C."""
LEFT_S = 120.0  # for the runs of a rehearsal that was broken off: one may be within an action
AGAIN_S = 2.0
MOST = 200  # newest runs that are looked through for those of a rehearsal
_PR_SET_PDEATHSIG = 1  # prctl(2)


@contextmanager
def one_end() -> Iterator[None]:
    """Meanwhile each of ENDS is a KeyboardInterrupt, once: while all is taken away, no further one breaks that off.

    With SIGHUP ignored (nohup), neither the terminal's end nor the parent's death ends the rehearsal.
    """
    ends = [s for s in ENDS if signal.getsignal(s) is not signal.SIG_IGN]
    by_parent = signal.SIGHUP in ends
    before = {s: signal.signal(s, _break_off) for s in ends}
    before |= {signal.SIGALRM: signal.signal(signal.SIGALRM, _again)}
    if by_parent:
        _signalled_at_parents_death(signal.SIGHUP)
    try:
        yield
    finally:
        if by_parent:
            _signalled_at_parents_death(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for s, handler in before.items():
            signal.signal(s, handler)


def _break_off(number: int, _frame: FrameType | None) -> None:
    _no_more()
    if number == signal.SIGHUP:
        _to_nobody()
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S, AGAIN_S)
    raise KeyboardInterrupt


def _again(_number: int, _frame: FrameType | None) -> None:
    """Where a signal strikes its exception may be lost (in a destructor, in a callback): until one is being handled it comes again."""
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        raise KeyboardInterrupt


def _is_ending() -> None:
    """From here on no signal breaks off the taking away."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    _no_more()


def _no_more() -> None:
    for s in ENDS:
        if signal.getsignal(s) is _break_off:
            signal.signal(s, _pass_over)  # not SIG_IGN: what is started meanwhile would inherit that


def _pass_over(_number: int, _frame: FrameType | None) -> None:
    """It is ending already."""


def _to_nobody() -> None:
    """No line and no question goes to a terminal that is gone: each would be an error that breaks off the taking away."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _signalled_at_parents_death(number: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


@contextmanager
def nothing_open(fleet: Path, who: str) -> Iterator[None]:
    """However the rehearsal on that fleet file ends, no question stays open about a fault that is gone, and no run at work."""
    try:
        yield
    except BaseException:
        _is_ending()
        _say("removing the rehearsal …")
        try:
            end_runs(str(fleet), who, "the rehearsal was interrupted")
        except Exception as error:
            _say(f"its runs could not be ended: {error_text(error)}")
        raise
    finally:
        _is_ending()
        off_the_pages(str(fleet))


def off_the_pages(fleet: str) -> None:
    """The machine of that fleet file is taken away: `status` and the pages show nothing more of its runs. Never raises."""
    try:
        from flows import store
        from flows.config import load_fleet
        from flows.sweep.board import REHEARSED, publish_board

        for run in store.find_runs([store.RUNBOOK_TAG], limit=MOST):
            if run.parameters.get("fleet") == fleet:
                store.retag(run.id, [REHEARSED])
        publish_board(load_fleet(fleet))
    except Exception as error:
        _say(f"its runs stay on the pages: {error_text(error)}")


def _say(line: str) -> None:
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def end_runs(fleet: str, who: str, why: str) -> None:
    """Rejects what waits and lets the rest come to its end."""
    from flows import store
    from flows.engine.approval import answer_run
    from flows.engine.state_table import OPEN

    deadline = time.monotonic() + LEFT_S
    while time.monotonic() < deadline:
        left = [r for r in store.find_runs([store.RUNBOOK_TAG], OPEN) if r.parameters.get("fleet") == fleet]
        if not left:
            return
        for run in left:
            if run.state is not None and run.state.is_paused():
                answer_run(str(run.id), {"decision": "reject", "who": who, "why": why})
        time.sleep(1)
