"""Freeze, breaker and budget: the switches that are looked at before every act. No answer from the API means no act."""

from datetime import datetime, timedelta

from prefect.states import Completed

from flows import store
from flows.clock import server_now
from runbooks.core.fleet import Fleet
from runbooks.core.fleet_names import names_of
from runbooks.core.names import slug
from runbooks.core.policy import Policy

FREEZE = "gpu_runbooks_freeze"
BUDGET_TAG = "gpu-budget"
SLOT_DEPLOYMENT = "budget-slot/budget-slot"


class GuardSaidNo(Exception):
    """A guard refused. The text goes into the report."""


class FrozenNow(GuardSaidNo):
    """A freeze, which ends: what was asked before it is asked again."""


def breaker_name(fleet: str) -> str:
    """Variable that holds a tripped breaker."""
    return f"gpu_runbooks_breaker_{slug(fleet).replace('-', '_')}"


def check_freeze() -> None:
    """Raises FrozenNow while anything is frozen: the switch for all, or this machine's file; GuardSaidNo if nobody knows."""
    from tasks.freeze_file import read_freeze_file

    local = read_freeze_file()
    if local is not None:
        raise FrozenNow(f"this machine is frozen: {local}")
    try:
        frozen = store.get_variable(FREEZE)
    except Exception as e:
        raise GuardSaidNo(f"the freeze switch cannot be read, so nothing is changed ({type(e).__name__}: {e})") from e
    if frozen:
        raise FrozenNow(f"frozen since {frozen.get('at', '?')}: {frozen.get('why', '')}")


def check_breaker(fleet: str) -> None:
    """Raises GuardSaidNo while the fleet's breaker is tripped."""
    try:
        tripped = next((found for name in names_of(fleet) if (found := store.get_variable(breaker_name(name)))), None)
    except Exception as e:
        raise GuardSaidNo(f"the breaker cannot be read, so nothing is changed ({type(e).__name__}: {e})") from e
    if tripped:
        raise GuardSaidNo(
            f"the breaker of fleet {fleet} tripped at {tripped.get('at', '?')}: {tripped.get('why', '')}; "
            "a person resets it with `gpu-runbooks reset-breaker`"
        )


def trip(fleet: str, why: str, now: datetime) -> None:
    """Trips the fleet's breaker."""
    store.set_variable(breaker_name(fleet), {"at": now.isoformat(timespec="seconds"), "why": why})


def reset_breaker(fleet: str, who: str = "") -> bool:
    """Resets the fleet's breaker and starts its budget afresh. False if it was not tripped."""
    was = [store.delete_variable(breaker_name(name)) for name in names_of(fleet)]
    if not any(was):
        return False
    store.set_variable(_fresh_name(fleet), {"at": server_now().isoformat(), "who": who})
    return True


def _fresh_name(fleet: str) -> str:
    return f"gpu_runbooks_budget_from_{slug(fleet).replace('-', '_')}"


def _window_begin(fleet: str, policy: Policy, now: datetime) -> datetime:
    """The budget's window, cut short by a person's reset."""
    begin = now - timedelta(seconds=policy.budget.window_s)
    fresh = store.get_variable(_fresh_name(fleet))
    return max(begin, datetime.fromisoformat(str(fresh["at"]))) if fresh else begin


def take_slot(fleet: Fleet, policy: Policy, target: str, act_run: str, machine: tuple[str, ...] = ()) -> str:
    """Takes one place of the fleet's budget for `target`, or trips the breaker and raises GuardSaidNo.

    A place is a finished run with idempotency key `<fleet>/<k>`: the server gives each k to one asker only. A target
    that already has a place in the window needs no second one, under whatever name: `machine` is what it is known by.
    Returns a sentence for the report.
    """
    check_breaker(fleet.name)
    allowed = policy.budget.allowed(len(fleet.nodes))
    tag = f"fleet:{slug(fleet.name)}"
    for _ in range(1000):
        begin = _window_begin(fleet.name, policy, server_now())
        newest = store.find_runs([BUDGET_TAG, tag], limit=20)
        slots = store.find_runs([BUDGET_TAG, tag], since=begin)
        taken = [s for s in slots if datetime.fromisoformat(s.parameters["at"]) > begin]
        targets = {s.parameters["target"] for s in taken}
        alike = next((s.parameters["target"] for s in taken if set(s.parameters.get("machine", ())) & set(machine)), target)
        if alike in targets:
            name = target if alike == target else f"{target}, the same machine as {alike},"
            return f"budget: {name} is already counted ({len(targets)} of {allowed} nodes in the window)"
        if len(targets) >= allowed:
            why = f"{len(targets)} of {allowed} nodes changed in {policy.budget.window_s:.0f} s; {target} is one more"
            trip(fleet.name, why, server_now())
            raise GuardSaidNo(f"budget used up: {why}; the breaker is tripped")
        k = max((int(s.parameters["k"]) for s in (*newest, *slots)), default=0) + 1
        at = server_now().isoformat()
        parameters = {"k": k, "target": target, "at": at, "act_run": act_run, "machine": list(machine)}
        mine = store.create_run(
            SLOT_DEPLOYMENT,
            parameters,
            state=Completed(message="a place in the budget"),
            key=f"{slug(fleet.name)}/{k}",
            name=f"budget-{slug(fleet.name)}-{k}",
            tags=[BUDGET_TAG, tag],
            labels={},
        )
        if store.read_run(mine.id).parameters.get("act_run") == act_run:
            return f"budget: place {len(targets) + 1} of {allowed} in {policy.budget.window_s:.0f} s"
    raise GuardSaidNo("the budget could not be read in 1000 tries")
