"""Locks: an act run on a physical owner is lock, write-ahead record and counter in one object of the server."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled, Pending

from flows import records, store
from flows.clock import server_now
from flows.engine.gate import PastAct
from flows.engine.lock_key import Place, place_of
from flows.engine.node_over import ask_machines
from flows.engine.states import change
from flows.engine.steps import RUNS_ON, SETTLED, began, deliver, revoke, unfinished
from runbooks.core.args.table import misfit
from runbooks.core.base import Frozen
from runbooks.core.names import slug
from runbooks.core.plan import Plan, Step
from runbooks.core.refusal import Code
from tasks.context import Context, Refused
from tasks.this_machine import this_process

NEWEST = 50  # the lock is among them: it bars the next ones
RECORDED = 300_000  # characters


class Claim(Frozen):
    """A lock that this process holds, not yet acted on."""

    owner: str
    act_run: str
    token: str
    steps: tuple[Step, ...]
    place: Place


def owner_tag(owner: str) -> str:
    """Tag of all act runs on that owner."""
    return f"owner:{slug(owner)}"


def acts_on(owner: str, since: datetime | None = None) -> list[FlowRun]:
    """Act runs on that owner by its name, newest first by their number: the newest, and each that began after `since`."""
    runs = _newest([store.ACT_TAG, owner_tag(owner)], since)
    return sorted(runs, key=lambda r: -int(r.parameters.get("n", 0)))


def _newest(tags: list[str], since: datetime | None, any_of: tuple[str, ...] = ()) -> list[FlowRun]:
    runs = store.find_runs(tags, limit=NEWEST, any_of=any_of)
    if since is not None and len(runs) == NEWEST:
        runs = list({r.id: r for r in (*runs, *store.find_runs(tags, since=since, any_of=any_of))}.values())
    return runs


def acts_at(place: Place, tags: tuple[str, ...], fleet: str, since: datetime | None = None) -> list[FlowRun]:
    """Act runs on that owner, whatever it was called: by its name, unless that was another fleet's and another machine,
    or by one of the tags of its place."""
    named = [r for r in acts_on(place.owner, since) if not place.is_another(r, fleet)]
    others = _newest([store.ACT_TAG], since, tags) if tags else []
    return list({r.id: r for r in (*named, *others)}.values())


def going_on(run: FlowRun, now: datetime) -> str:
    """Why the owner of this act run is locked: it has not ended, or a step of it may still be at work. "" if it is free."""
    left = unfinished(run, now)
    if left and run.state and run.state.is_final():
        ask_machines(run, now, (RUNS_ON,))  # its process lost sight of a command; of others the reaper asks
        left = unfinished(run, now)
    if left:
        return f"{run.name}: {left}"
    return "" if run.state and run.state.is_final() else run.name


def history_of(places: tuple[Place, ...], fleet: str, since: datetime | None = None) -> tuple[PastAct, ...]:
    """Acts on these owners that really began, under whatever name: all after `since`, and some before it."""
    past, now = [], server_now()
    for place in places:
        for run in acts_at(place, place.same_tags, fleet, since):
            if not began(run):
                continue
            past.append(
                PastAct(
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


def claim_all(plan: Plan, about: dict[str, Any], context: Context | None = None) -> tuple[Claim, ...]:
    """Claims every owner of `plan` in sorted order, all or none, and what its machine is known by besides. `about` goes
    into the records. Raises Refused (owner-busy, bad-arguments)."""
    if words := "; ".join(filter(None, (misfit(s.kind, s.args) for s in plan.steps))):
        raise Refused(Code.BAD_ARGUMENTS, words)
    places = [place_of(owner, context) for owner in plan.owners]
    claims: list[Claim] = []
    try:
        for place in places:
            claims.append(_claim(place, plan, about, claims))
            _alone(place, about, claims)
    except BaseException:
        release(tuple(claims), "another target of the plan could not be locked")
        raise
    return tuple(claims)


def _alone(place: Place, about: dict[str, Any], mine: list[Claim]) -> None:
    """Raises Refused (owner-busy) if another run works on the same place. Each claim is written before its maker looks here, so that of
    two at one moment the later one sees the other; both may, and then neither goes on."""
    for run in acts_at(place, place.tags, str(about.get("fleet", ""))):
        if str(run.id) in {c.act_run for c in mine}:
            continue
        if run.start_time and run.state and run.state.is_final() and SETTLED not in run.labels:
            deliver(run.id)
            revoke(run, f"{place.owner} was locked by another run")  # whoever ended it: its process may only have slept
        if busy := going_on(run, server_now()):
            raise Refused(Code.OWNER_BUSY, f"{place.owner} is locked by action run {busy} ({run.id})")


def _claim(place: Place, plan: Plan, about: dict[str, Any], mine: list[Claim]) -> Claim:
    owner, token = place.owner, uuid4().hex
    steps = tuple(s for s in plan.steps if s.owner == owner)
    _alone(place, about, mine)
    n = max((int(r.parameters.get("n", 0)) for r in acts_on(owner)), default=0) + 1
    for attempt in range(n, n + 1000):
        stored = _create(place, attempt, token, steps, plan, about)
        if stored.parameters.get("token") == token:
            return Claim(owner=owner, act_run=str(stored.id), token=token, steps=steps, place=place)
        if stored.state and not stored.state.is_final():
            said = f"{owner} was locked at the same moment by action run {stored.name} ({stored.id})"
            raise Refused(Code.OWNER_BUSY, said)
    raise Refused(Code.OWNER_BUSY, f"{owner} could not be locked in 1000 attempts")


def _create(place: Place, n: int, token: str, steps: tuple[Step, ...], plan: Plan, about: dict[str, Any]) -> FlowRun:
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


def release(claims: tuple[Claim, ...], why: str) -> None:
    """Gives back claims that were not acted on."""
    for claim in claims:
        try:
            run = store.read_run(claim.act_run)
            if run.state and run.state.is_pending():
                change(run, Cancelled(message=f"not started: {why}"))
        except Exception:  # noqa: S112 - the reaper ends what could not be released
            continue


def used_by(runbook_run: str | UUID, digest: str) -> bool:
    """True if an act of this plan already began for that runbook run: its approval is spent."""
    runs = store.find_runs([store.ACT_TAG, f"run:{runbook_run}"])
    return any(r.parameters.get("digest") == digest and began(r) for r in runs)
