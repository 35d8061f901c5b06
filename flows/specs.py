"""Slug to spec, without Prefect: what the command line and the engine look runbooks up in. A row says only what is special."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from flows.spec import RunbookSpec, any_node, no_node
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import folder_of, runbook_slugs
from runbooks.core.names import there_are
from tasks.context import Context


class NoSuchRunbook(KeyError):
    """No runbook of that name. The message lists the names."""

    def __str__(self) -> str:
        return str(self.args[0])


def load_spec(slug: str) -> RunbookSpec:
    """The runbook's spec; only that runbook's modules are imported. Raises NoSuchRunbook."""
    if slug not in SPECS:
        raise NoSuchRunbook(f"no runbook {slug!r}; {there_are(slug, sorted(SPECS))}")
    return SPECS[slug]()


SWEEPS = {
    "nightly": "flows.sweep.nightly.nightly",
    "sweep": "flows.sweep.nightly.sweep",
    "nightly-shard": "flows.sweep.shard.nightly_shard",
}


def entrypoint(slug: str) -> str:
    """module.name of the flow of a runbook or a sweep, as deployments name it."""
    return SWEEPS.get(slug) or f"flows.runbooks.{slug.replace('-', '_')}"


def by_convention(slug: str, **more: Any) -> RunbookSpec:
    """The spec of a runbook whose parts are where CONTRIBUTING.md says; `more` are RunbookSpec's optional fields."""
    name, folder = slug.replace("-", "_"), folder_of(slug)
    judge = import_module(f"runbooks.{folder}.diagnose")
    return RunbookSpec(
        slug=slug,
        evidence=import_module(f"runbooks.{folder}.evidence").Evidence,
        limits=judge.Limits,
        gather=getattr(import_module(f"tasks.{folder}.read"), f"gather_{name}"),
        diagnose=judge.diagnose,
        **more,
    )


def _asks_for_rendezvous(fleet: Fleet, node: Node) -> bool:
    return any(r.asks == node.name for r in fleet.rendezvous)


def _uses_rendezvous(fleet: Fleet, node: Node) -> bool:
    return any(node.name in (r.asks, *r.nodes) for r in fleet.rendezvous)


def _leads_a_launch(fleet: Fleet, node: Node) -> bool:
    return any(x.nodes[0] == node.name for x in fleet.launches)


def _has_containers(fleet: Fleet, node: Node) -> bool:
    return bool(fleet.containers_on(node.name))


def _may_have_containers(fleet: Fleet, node: Node) -> bool:
    """Where the fleet file names none anywhere, a run asks the node's engine which there are."""
    return _has_containers(fleet, node) or not fleet.containers


def _reaches_ray(fleet: Fleet, node: Node) -> bool:
    return fleet.ray is not None and fleet.ray.head == node.name


def _is_of_ray(fleet: Fleet, node: Node) -> bool:
    return fleet.ray is not None and node.name in (fleet.ray.head, *fleet.ray.nodes.values())


def _meets_others(fleet: Fleet, node: Node) -> bool:
    return any(node.name in r.named_nodes() for r in fleet.rendezvous)


def _is_launched_on(fleet: Fleet, node: Node) -> bool:
    return any(node.name in x.nodes for x in fleet.launches)


def _has_data(fleet: Fleet, node: Node) -> bool:
    return bool(fleet.data_on(node.name))


def _data_sets(context: Context) -> tuple[dict[str, Any], ...]:
    """What the run was told to read, else each of the fleet file's data sets on that node."""
    known = () if context.options.get("data") else context.fleet.data_on(context.target)
    return tuple({**context.options, **d.options} for d in known) or (context.options,)


def _has_checkpoints(fleet: Fleet, node: Node) -> bool:
    return fleet.checkpoints is not None and bool(fleet.checkpoints.tiers_on(node.name))


def _containers(context: Context) -> tuple[dict[str, Any], ...]:
    found: tuple[dict[str, Any], ...] = import_module("tasks.container.read").parts_of_node(context)
    return found


SPECIAL: dict[str, dict[str, Any]] = {  # RunbookSpec's optional fields, and the order in which the nightly runs them
    "zombie-gpu": {"lookback": "idle_s"},
    "container-death": {"nightly": _has_containers, "about": _may_have_containers, "parts": _containers},
    "ray-job": {"nightly": _reaches_ray, "reads_on": _is_of_ray},
    "checkpoint-fallback": {"nightly": _has_checkpoints},
    "memory-pressure": {"window": "kill_old_s"},
    "data-check": {"nightly": _has_data, "about": any_node, "parts": _data_sets},
    "host-limits": {"lookback": "refused_old_s"},
    "stale-rendezvous": {
        "nightly": _asks_for_rendezvous,
        "about": _uses_rendezvous,
        "reads_on": _meets_others,
        "targets": lambda fleet: tuple(r.name for r in fleet.rendezvous),
    },
    "distributed-setup": {
        "nightly": _leads_a_launch,
        "about": _is_launched_on,
        "reads_on": _is_launched_on,
        "targets": lambda fleet: tuple(x.name for x in fleet.launches),
    },
    "ssh-auth-failure": {"nightly": None, "logs_in": True},
    "stuck-spawning": {
        "nightly": None,
        "about": no_node,
        "targets": lambda fleet: ("workers", "worker") if fleet.orchestrator else (),
        "nightly_targets": lambda fleet: ("workers",) if fleet.orchestrator else (),
    },
    "fleet-sync": {
        "nightly": None,
        "about": no_node,
        "targets": lambda fleet: ("fleet",) if fleet.orchestrator else (),
        "nightly_targets": lambda fleet: ("fleet",) if fleet.orchestrator else (),
    },
}

SLUGS: tuple[str, ...] = tuple(dict.fromkeys((*SPECIAL, *runbook_slugs())))
"""Every runbook that can be run, in the order in which the nightly runs them: a folder without a row above comes last."""

SPECS: dict[str, Callable[[], RunbookSpec]] = {slug: partial(by_convention, slug, **SPECIAL.get(slug, {})) for slug in SLUGS}


def reads_on(slug: str, fleet: Fleet, node: Node) -> bool:
    """Whether a nightly reads that node for the runbook, as its target or for another one. Loads no runbook."""
    row = SPECIAL.get(slug, {})
    reads = row.get("reads_on", row.get("nightly", any_node))
    return reads is not None and bool(reads(fleet, node))
