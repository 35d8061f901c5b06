"""Freeze, breaker and budget: the switches that are looked at before every action. No answer from the API means no action."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NoReturn

from prefect.states import Completed

from flows import records, store
from flows.clock import server_now
from flows.engine.changed_machines import Changed, changed, members
from runbooks.core.fleet import Fleet
from runbooks.core.fleet_names import names_of
from runbooks.core.names import slug
from runbooks.core.policy import Policy
from runbooks.core.refusal import RefusalCode
from runbooks.core.times import utc_first, utc_of
from tasks.context import ActionRefused

FREEZE = "gpu_runbooks_freeze"
BREAKER, TRIPPED = "gpu_runbooks_breaker_", "gpu_runbooks_tripped_"
LISTED = 150  # marks in one Variable, which holds 5,000 characters
BUDGET_TAG = "gpu-budget"


def breaker_name(fleet: str) -> str:
    """Variable that holds a tripped breaker."""
    return BREAKER + _plain(fleet)


def _plain(fleet: str) -> str:
    return slug(fleet).replace("-", "_")


def check_freeze() -> None:
    """Raises ActionRefused (frozen) while anything is frozen: the switch for all, or this machine's file; or if nobody knows."""
    from tasks.freeze_file import read_freeze_file

    local = read_freeze_file()
    if local is not None:
        raise ActionRefused(RefusalCode.FROZEN, f"this machine is frozen: {utc_first(local)}")
    try:
        frozen = store.get_variable(FREEZE)
    except Exception as e:
        said = f"the freeze switch cannot be read, so nothing is changed ({type(e).__name__}: {e})"
        raise ActionRefused(RefusalCode.CANNOT_CHECK, said) from e
    if frozen:
        raise ActionRefused(RefusalCode.FROZEN, f"frozen since {utc_of(frozen.get('at', '?'))}: {frozen.get('why', '')}")


def check_breaker(fleet: str, machine: tuple[str, ...] = ()) -> None:
    """Raises ActionRefused while the fleet's breaker is tripped, or that of another fleet with the same machine: `machine` is
    what it is known by."""
    try:
        tripped = next((found for name in names_of(fleet) if (found := store.get_variable(breaker_name(name)))), None)
        other = _tripped_elsewhere(frozenset(machine))
    except Exception as e:
        said = f"the breaker cannot be read, so nothing is changed ({type(e).__name__}: {e})"
        raise ActionRefused(RefusalCode.CANNOT_CHECK, said) from e
    if tripped:
        raise ActionRefused(RefusalCode.BREAKER_OPEN, _tripped(fleet, tripped) + "; a person resets it with `gpu-runbooks reset-breaker`")
    for name, what in other.items():
        said = "; it also applies to this machine, which is in that fleet too; a person resets it with `gpu-runbooks reset-breaker` there"
        raise ActionRefused(RefusalCode.BREAKER_OPEN, _tripped(name, what) + said)


def _tripped(fleet: str, what: dict[str, Any]) -> str:
    return f"the breaker of fleet {fleet} tripped at {utc_of(what.get('at', '?'))}: {what.get('why', '')}"


def _tripped_elsewhere(machine: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Tripped breakers of fleets that have a machine with one of these marks, by the fleets' names."""
    tripped = store.variables(BREAKER)
    lists = store.variables(TRIPPED).items() if tripped else ()
    return {
        str(found["fleet"]): tripped[whose]
        for name, found in lists
        if (whose := name.partition("_")[2]) in tripped and machine & set(found["machines"])
    }


def trip(fleet: str, why: str, now: datetime, machines: Iterable[str] = ()) -> None:
    """Trips the fleet's breaker. `machines`: what its machines are known by, for other fleets that have them as well."""
    marks = sorted(machines)
    for at in range(0, len(marks), LISTED):
        store.set_variable(f"{TRIPPED}{at}_{_plain(fleet)}", {"fleet": fleet, "machines": marks[at : at + LISTED]})
    store.set_variable(breaker_name(fleet), {"at": now.isoformat(timespec="seconds"), "why": why})


def reset_breaker(fleet: str, who: str = "") -> bool:
    """Resets the fleet's breaker and starts its budget afresh. False if it was not tripped."""
    was = [store.delete_variable(breaker_name(name)) for name in names_of(fleet)]
    if not any(was):
        return False
    for name in store.variables(TRIPPED):
        if name.partition("_")[2] in map(_plain, names_of(fleet)):
            store.delete_variable(TRIPPED + name)
    store.set_variable(_fresh_name(fleet), {"at": server_now().isoformat(), "who": who})
    return True


def _fresh_name(fleet: str) -> str:
    return f"gpu_runbooks_budget_from_{_plain(fleet)}"


def _window_begin(fleet: str, policy: Policy, now: datetime) -> datetime:
    """The budget's window, cut short by a person's reset."""
    begin = now - timedelta(seconds=policy.budget.window_s)
    fresh = store.get_variable(_fresh_name(fleet))
    return max(begin, datetime.fromisoformat(str(fresh["at"]))) if fresh else begin


def _taken(fleet: str, policy: Policy, tag: str, known: frozenset[str]) -> list[Changed]:
    """The machines that have a place in the window now."""
    begin = _window_begin(fleet, policy, server_now())
    places = store.find_runs([BUDGET_TAG], since=begin)
    return changed([p for p in places if datetime.fromisoformat(p.parameters["at"]) > begin], tag, known)


def _used_up(fleet: str, why: str, known: frozenset[str], taken: list[Changed]) -> NoReturn:
    trip(fleet, why, server_now(), known.union(*(c.marks for c in taken)))
    raise ActionRefused(RefusalCode.BUDGET_SPENT, f"budget used up: {why}; the breaker is tripped")


def take_budget_token(fleet: Fleet, policy: Policy, target: str, act_run: str, machine: tuple[str, ...] = ()) -> str:
    """Takes one token of the fleet's budget for `target`, or trips the breaker and raises ActionRefused.

    A place is a finished run with idempotency key `<fleet>/<k>`: the server gives each k to one asker only. A target
    that already has a place in the window needs no second one, under whatever name and in whatever fleet file: `machine`
    is what it is known by. Returns a sentence for the report.
    """
    check_breaker(fleet.name, machine)
    known = members(fleet) | set(machine)
    allowed = policy.budget.allowed(len(fleet.nodes))
    tag = f"fleet:{slug(fleet.name)}"
    for _ in range(1000):
        newest = store.find_runs([BUDGET_TAG, tag], limit=20)
        taken = _taken(fleet.name, policy, tag, known)
        alike = next((c for c in taken if (tag, target) in c.names or c.marks & set(machine)), None)
        if alike is not None:
            name = target if (tag, target) in alike.names else f"{target}, the same machine as {alike.name},"
            return f"budget: {name} is already counted ({len(taken)} of {allowed} nodes in the window)"
        if len(taken) >= allowed:
            why = f"{len(taken)} of {allowed} nodes changed in {policy.budget.window_s:.0f} s; {target} is one more"
            _used_up(fleet.name, why, known, taken)
        k = max((int(s.parameters["k"]) for s in newest), default=0) + 1
        at = server_now().isoformat()
        parameters = {"k": k, "target": target, "at": at, "act_run": act_run, "machine": list(machine)}
        mine = records.create_record(
            records.BUDGET,
            parameters,
            state=Completed(message="a place in the budget"),
            key=f"{slug(fleet.name)}/{k}",
            name=f"budget-{slug(fleet.name)}-{k}",
            tags=[BUDGET_TAG, tag],
            labels={},
        )
        if store.read_run(mine.id).parameters.get("act_run") == act_run:
            taken = _taken(fleet.name, policy, tag, known)  # a fleet with the same machines has numbers of its own
            if len(taken) > allowed:
                _used_up(fleet.name, f"{len(taken)} of {allowed} nodes were to be changed at the same moment", known, taken)
            return f"budget: place {len(taken)} of {allowed} in {policy.budget.window_s:.0f} s"
    raise ActionRefused(RefusalCode.CANNOT_CHECK, "the budget could not be read in 1000 tries")
