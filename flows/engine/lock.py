"""Locks: an action run on a physical owner is lock, write-ahead record and counter in one object of the server."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled, Pending

from flows import records, store
from flows.clock import server_now
from flows.engine.gate import PastAction
from flows.engine.lock_key import LockKey, lock_key_of
from flows.engine.node_over import ask_machines
from flows.engine.states import change
from flows.engine.steps import RUNS_ON, SETTLED, began, deliver, revoke, unfinished
from runbooks.core.args.table import misfit
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from runbooks.core.plan import Plan, Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context
from tasks.this_machine import this_process

NEWEST = 50  # the lock is among them: it bars the next ones
RECORDED = 300_000  # characters


class Lock(Frozen):
    """A lock that this process holds, not yet acted on."""

    owner: str
    act_run: str
    token: str
    steps: tuple[Step, ...]
    place: LockKey


def owner_tag(owner: str) -> str:
    """Tag of all action runs on that owner."""
    return f"owner:{slug(owner)}"


def actions_on(owner: str, since: datetime | None = None) -> list[FlowRun]:
    """Action runs on that owner by its name, newest first by their number: the newest, and each that began after `since`."""
    runs = _newest([store.ACT_TAG, owner_tag(owner)], since)
    return sorted(runs, key=lambda r: -int(r.parameters.get("n", 0)))


def _newest(tags: list[str], since: datetime | None, any_of: tuple[str, ...] = ()) -> list[FlowRun]:
    runs = store.find_runs(tags, limit=NEWEST, any_of=any_of)
    if since is not None and len(runs) == NEWEST:
        runs = list({r.id: r for r in (*runs, *store.find_runs(tags, since=since, any_of=any_of))}.values())
    return runs


def actions_at(place: LockKey, tags: tuple[str, ...], fleet: str, since: datetime | None = None) -> list[FlowRun]:
    """Action runs on that owner, whatever it was called: by its name, unless that was another fleet's and another machine,
    or by one of the tags of its place."""
    named = [r for r in actions_on(place.owner, since) if not place.is_another(r, fleet)]
    others = _newest([store.ACT_TAG], since, tags) if tags else []
    return list({r.id: r for r in (*named, *others)}.values())


def going_on(run: FlowRun, now: datetime) -> str:
    """Why the owner of this action run is locked: it has not ended, or a step of it may still be at work. "" if it is free."""
    left = unfinished(run, now)
    if left and run.state and run.state.is_final():
        ask_machines(run, now, (RUNS_ON,))  # its process lost sight of a command; of others the reaper asks
        left = unfinished(run, now)
    if left:
        return f"{run.name}: {left}"
    return "" if run.state and run.state.is_final() else run.name


def history_of(places: tuple[LockKey, ...], fleet: str, since: datetime | None = None) -> tuple[PastAction, ...]:
    """Actions on these owners that really began, under whatever name: all after `since`, and some before it."""
    past, now = [], server_now()
    for place in places:
        for run in actions_at(place, place.same_tags, fleet, since):
            if not began(run):
                continue
            past.append(
                PastAction(
                    owner=place.owner,
                    kinds=tuple(run.parameters.get("kinds", ())),
                    causes=tuple(run.parameters.get("causes", ())),
                    started_at=run.start_time or run.created or server_now(),
                    verified=str(run.labels.get("verified", "")),
                    going_on=going_on(run, now),
                    ended_at=run.end_time,
                    of=tuple(str(s.get("of", "")) for s in run.parameters.get("steps", ())),
                )
            )
    return tuple(past)


def lock_all(plan: Plan, about: dict[str, Any], context: Context | None = None) -> tuple[Lock, ...]:
    """Locks every owner of `plan` in sorted order, all or none, and what its machine is known by besides. `about` goes
    into the records. Raises ActionRefused (owner-busy, bad-arguments)."""
    if words := "; ".join(filter(None, (misfit(s.kind, s.args) for s in plan.steps))):
        raise ActionRefused(RefusalCode.BAD_ARGUMENTS, words)
    places = [lock_key_of(owner, context) for owner in plan.owners]
    locks: list[Lock] = []
    try:
        for place in places:
            locks.append(_lock(place, plan, about, locks))
            _alone(place, about, locks)
    except BaseException:
        release(tuple(locks), "another target of the plan could not be locked")
        raise
    return tuple(locks)


def _alone(place: LockKey, about: dict[str, Any], mine: list[Lock]) -> None:
    """Raises ActionRefused (owner-busy) if another run works on the same place. Each lock is written before its maker looks here, so that
    of two at one moment the later one sees the other; both may, and then neither goes on."""
    for run in actions_at(place, place.tags, str(about.get("fleet", ""))):
        if str(run.id) in {c.act_run for c in mine}:
            continue
        if run.start_time and run.state and run.state.is_final() and SETTLED not in run.labels:
            deliver(run.id)
            revoke(run, f"{place.owner} was locked by another run")  # whoever ended it: its process may only have slept
        if busy := going_on(run, server_now()):
            raise ActionRefused(RefusalCode.OWNER_BUSY, f"{place.owner} is locked by action run {busy} ({run.id})")


def _lock(place: LockKey, plan: Plan, about: dict[str, Any], mine: list[Lock]) -> Lock:
    owner, token = place.owner, uuid4().hex
    steps = tuple(s for s in plan.steps if s.owner == owner)
    n = max((int(r.parameters.get("n", 0)) for r in actions_on(owner)), default=0) + 1
    _alone(place, about, mine)  # after the number was read: a lock that was written since then has that very number
    for attempt in range(n, n + 1000):
        stored = _create(place, attempt, token, steps, plan, about)
        if stored.parameters.get("token") == token:
            return Lock(owner=owner, act_run=str(stored.id), token=token, steps=steps, place=place)
        if stored.state and not stored.state.is_final():
            said = f"{owner} was locked at the same moment by action run {stored.name} ({stored.id})"
            raise ActionRefused(RefusalCode.OWNER_BUSY, said)
    raise ActionRefused(RefusalCode.OWNER_BUSY, f"{owner} could not be locked in 1000 attempts")


def _create(place: LockKey, n: int, token: str, steps: tuple[Step, ...], plan: Plan, about: dict[str, Any]) -> FlowRun:
    me, owner = this_process(), place.owner
    parameters = {
        "owner": owner,
        "n": n,
        "token": token,
        "digest": plan.digest,
        "kinds": sorted({s.kind for s in steps}),
        "causes": list(plan.for_causes),
        "steps": _recorded(steps),
        "process": me.model_dump(),
        "about": about | {"same": list(place.same), "lock": place.lock},
    }
    run = records.create_record(
        records.ACT,
        parameters,
        state=Pending(message="claimed"),
        key=f"{slug(owner)}/{n}",
        name=f"act-{slug(owner)}-{n}",
        tags=[store.ACT_TAG, owner_tag(owner), f"run:{about.get('runbook_run', '')}", *place.tags],
        labels=me.labels(),
    )
    return store.read_run(run.id)


def _recorded(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    """The steps as data. The server takes 512 KiB of parameters: of steps with more the identities and commands stand in
    the report, and here what tells them apart."""
    whole = [s.model_dump(mode="json") for s in steps]
    if len(json.dumps(whole)) <= RECORDED:
        return whole
    short = f"{sum(len(s.commands) for s in steps)} commands, too many for this record: they stand in the report"
    small = [{k: v for k, v in s.args.items() if len(json.dumps(v)) <= 1000} for s in steps]
    return [
        s.model_copy(update={"args": args, "commands": (short,)}).model_dump(mode="json")
        for s, args in zip(steps, small, strict=True)
    ]


def release(locks: tuple[Lock, ...], why: str) -> None:
    """Gives back locks that were not acted on."""
    for lock in locks:
        try:
            run = store.read_run(lock.act_run)
            if run.state and run.state.is_pending():
                change(run, Cancelled(message=f"not started: {why}"))
        except Exception:  # noqa: S112 - the reaper ends what could not be released
            continue


def used_by(runbook_run: str | UUID, digest: str) -> bool:
    """True if an action of this plan already began for that runbook run: its approval is spent."""
    runs = store.find_runs([store.ACT_TAG, f"run:{runbook_run}"])
    return any(r.parameters.get("digest") == digest and began(r) for r in runs)
