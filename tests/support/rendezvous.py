"""A rendezvous of the fleet file on this machine, looked at and acted on as the engine would."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runbooks.core.fleet import Fleet, Node, Reports
from runbooks.core.plan import Plan
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Diagnosis
from runbooks.rendezvous.diagnose import Limits, diagnose
from runbooks.rendezvous.evidence import Evidence
from tasks.context import ActionResult, Context
from tasks.rendezvous.act import defragment_etcd, delete_run_keys, probe_rendezvous, start_etcd
from tasks.rendezvous.act_restore import restore_run_keys
from tasks.rendezvous.read import gather_stale_rendezvous
from tasks.transport.local import LocalHost

LIMITS = Limits(clock_skew_s=15, fsync_p99_s=0.1, old_agent_age_s=60)
ACTIONS = {
    "delete-run-keys": delete_run_keys,
    "probe-rendezvous": probe_rendezvous,
    "restore-run-keys": restore_run_keys,
    "start-etcd": start_etcd,
    "defragment-etcd": defragment_etcd,
}


def place(url: str, **more: Any) -> Rendezvous:
    """The rendezvous `t` with both etcd backends on node `local`."""
    given = {"name": "t", "backends": ("etcd-v2", "etcd"), "endpoints": (url,), "nodes": ("local",), "keep_alive_s": 1}
    given["contained"] = True  # whatever these tests run in, every agent of theirs is in it
    return Rendezvous.model_validate(given | more)


def context_of(where: Rendezvous, folder: Path, target: str = "t", **options: Any) -> Context:
    """A context on this machine; reports go below `folder`."""
    names = where.named_nodes()
    fleet = Fleet(
        nodes=tuple(Node(name=n, local=True) for n in names), rendezvous=(where,), reports=Reports(folder=str(folder))
    )
    return Context(fleet=fleet, target=target, open_host=lambda node: LocalHost(node.name), options=options)


def fast(context: Context) -> Context:
    """The same with a clock that is moved on instead of slept: only for tests in which nobody beats."""
    slept = [0.0]
    values = {**context.__dict__}
    values["sleep"] = lambda s: slept.__setitem__(0, slept[0] + s)
    values["now"] = lambda: datetime.now(UTC) + timedelta(seconds=slept[0])
    return Context(**values)


def look(context: Context) -> tuple[Evidence, Diagnosis]:
    """Gather and judge."""
    evidence = gather_stale_rendezvous(context)
    return evidence, diagnose(evidence, LIMITS)


def act(plan: Plan, context: Context) -> list[ActionResult]:
    """Every step of a plan."""
    return [ACTIONS[step.kind](step, context) for step in plan.steps]


def slugs(diagnosis: Diagnosis) -> list[str]:
    """Cause slugs that are a fault."""
    return [c.slug for c in diagnosis.wrong]
