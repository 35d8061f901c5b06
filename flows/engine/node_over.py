"""Asks the machines whether a command of an action whose process is gone still works there, so that its owner is free at once."""

import time
from datetime import datetime, timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.config import load_fleet
from flows.engine.ends import in_words
from flows.engine.steps import RUNS_ON, StepRecord, over, read_steps
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from runbooks.core.rendezvous_config import find_named
from tasks import this_machine
from tasks.context import Context
from tasks.remote.changing import ask_over
from tasks.ssh.far_side import other_way
from tasks.this_machine import Owner
from tasks.transport.base import Host
from tasks.transport.open import HostPool

BY_OTHER_WAY = ("add-public-key", "repair-ssh-path")  # through another account of the machine
AGAIN_S = 15.0
ROUND_S = 10.0  # machines that give no answer must not hold up the reaper's other work
SHARE = 10  # of the time: who took 10 s to give no answer is asked again after 100 s, and others have their turn
ASKED: dict[UUID, datetime] = {}
"""When the machines of an act run may be asked again."""
SPENT: dict[datetime, float] = {}
"""Seconds that the round of that time has spent with asking; the last round alone."""


def ask_machines(run: FlowRun, now: datetime, ends: tuple[str, ...] = ("", RUNS_ON)) -> str:
    """Writes down as over each step of which no machine that it changes runs anything; what they said, in words.

    Of steps that ended so: where the process of an action lives, only those of which it has lost sight.

    Where that is not a machine's to say (a pod, a row, a bucket), or it gives no answer, the step's time has to pass.
    """
    spent = SPENT.get(now, 0.0)
    if now < ASKED.get(run.id, now) or spent > ROUND_S:
        return ""
    said, pool, began = [], HostPool(), time.monotonic()
    try:
        for step in [s for s in read_steps(run.id) if s.open_at(now) and s.ended in ends]:
            said.append(_ask(run, step, pool))
    finally:
        pool.close_all()
        took = time.monotonic() - began
        ASKED[run.id] = now + timedelta(seconds=max(AGAIN_S, SHARE * took))
        SPENT.clear()
        SPENT[now] = spent + took
    return "; ".join(s for s in said if s)


def _ask(run: FlowRun, record: StepRecord, pool: HostPool) -> str:
    try:
        hosts = _hosts(run, record, pool)
        answers = [(host.name, *ask_over(host, lock_of(run), str(run.id))) for host in hosts]
    except Exception as e:  # whatever it is: nobody said that it is over
        return f"it is unknown whether anything of it still runs there: {in_words(e)}"
    if not answers:
        return ""
    if all(works is False for _, works, _ in answers):
        names = ", ".join(name for name, _, _ in answers)
        over(str(run.id), record.i, names)
        return f"{names} says that nothing of it runs there any more"
    return "; ".join(f"{name}: {said}" for name, works, said in answers if works is not False)


def _hosts(run: FlowRun, record: StepRecord, pool: HostPool) -> list[Host]:
    """Every machine that the step changes, reached as the step reaches it; [] if it is none, or not the same from here."""
    parent = store.read_run(str(run.parameters["about"]["runbook_run"]))
    fleet = load_fleet(parent.parameters.get("fleet"))
    step = Step.model_construct(**run.parameters["steps"][record.i])  # a record may hold its arguments shortened
    nodes = machines_of(step, fleet)
    if not nodes or not all(n is not None and same_from_here(n, run) for n in nodes):
        return []
    found = [n for n in nodes if n is not None]
    if step.kind in BY_OTHER_WAY:
        context = Context(fleet=fleet, target=found[0].name, open_host=pool)
        other = other_way(context, found[0])
        return [other] if other else []
    return [pool(n) for n in found]


def lock_of(run: FlowRun) -> str:
    """The name of an action run's lock file on its machine; before they had one of their own it was its owner's."""
    return str(run.parameters.get("about", {}).get("lock") or run.parameters["owner"])


def machines_of(step: Step, fleet: Fleet) -> tuple[Node | None, ...]:
    """The nodes on which commands of that step work; () where the owner is no machine. None: not in the fleet file any more."""
    known = {n.name: n for n in fleet.nodes}
    if step.owner in known:
        return (known[step.owner],)
    place = find_named(fleet.rendezvous, str(step.args.get("rendezvous", "")))
    if place is None:
        return ()
    probed = place.probe.nodes if place.probe and step.kind == "probe-rendezvous" else ()
    return tuple(known.get(name) for name in dict.fromkeys((place.asks, *probed)))


def same_from_here(node: Node, run: FlowRun) -> bool:
    """Whether this process means the same machine by that node as the one that acted: "local" is wherever one is."""
    if not node.local and not str(node.host).startswith(("127.", "localhost", "::1")):
        return True
    owner = Owner.from_labels(dict(run.labels))
    return owner is not None and owner.host == this_machine.machine_name()
