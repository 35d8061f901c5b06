"""Follows a run to its end, and says when no worker is there that could carry it on."""

import shlex
import sys
import time
from typing import TYPE_CHECKING

from deployments.errors import NO_WORKER, CommandError
from deployments.own_server import own_server
from deployments.pool import POOL

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

LOOK_EVERY_S = 1.0
FIRST_S = 10.0  # a worker that `up` has just started needs so long to report
ASK_EVERY_S = 10.0
SAY_EVERY_S = 30.0
PATIENCE_S = 120.0  # without a worker


def follow(run_id: str, quiet: bool = False, or_asks: bool = False) -> None:
    """Waits until the run has ended (`or_asks`: or asks again). Ctrl-C stops waiting, not the run.

    Raises CommandError where no worker is there to carry it on.
    """
    from flows import store

    said, untaken = "", _Untaken()
    while True:
        run = store.read_run(run_id)
        if run.state is None or run.state.is_final() or (or_asks and run.state.is_paused()):
            return
        if run.state.name != said and not quiet:
            print(f"  {run.state.name} …", file=sys.stderr, flush=True)
        said = str(run.state.name)
        if run.state.is_scheduled():
            untaken.look(run, time.monotonic())
        else:
            untaken = _Untaken()
        time.sleep(LOOK_EVERY_S)


class _Untaken:
    """A run that a worker is to take: since when, and what was said about it."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.alone: float | None = None  # since when no worker is there
        self.ask = self.say = FIRST_S  # seconds after `since`
        self.why = ""

    def look(self, run: "FlowRun", now: float) -> None:
        """Says what is wrong as soon as it is known, then again and again; ends the wait without a worker."""
        self.since = now if self.since is None else self.since
        waited = now - self.since
        if waited < self.ask:
            return
        self.ask = waited + ASK_EVERY_S
        why, gone = why_untaken(run.work_pool_name or POOL)
        self.alone = (self.since if self.alone is None else self.alone) if gone else None
        if self.alone is not None and now - self.alone > PATIENCE_S:
            more = f"the run continues when one starts; `gpu-runbooks show {run.id}` shows it"
            raise CommandError(f"not waited for any longer: {why}; {more}", NO_WORKER)
        if waited >= self.say or why != self.why:
            self.say, self.why = waited + SAY_EVERY_S, why
            print(f"  {why or 'no worker has taken the run yet'}; waiting for {waited:.0f} s …", file=sys.stderr, flush=True)


def why_untaken(pool: str) -> tuple[str, bool]:
    """Why no worker takes a run of the pool and what to do, "" if one should; and whether none is there."""
    from flows.clock import server_now
    from flows.pool import live_workers, pool_is_paused

    name = shlex.quote(pool)
    mine = own_server()
    start = f"`prefect worker start --pool {name}` on a machine that reaches the nodes" if mine else "`gpu-runbooks up`"
    workers = live_workers(pool, server_now())
    if workers is None:
        create = f"`prefect work-pool create {name} --type process`, then " if mine else ""
        return f"the server has no work pool {pool!r}. What to do: {create}{start}", True
    if not workers:
        return f"no worker is there for the work pool {pool!r}. What to do: start one with {start}", True
    if pool_is_paused(pool):
        resume = f"`prefect work-pool resume {name}`" if mine else "`gpu-runbooks up`"
        return f"the work pool {pool!r} is paused: a worker is stopping, or a person paused it. To resume it: {resume}", False
    return "", False
