"""Reads and judges nodes for a sweep: every runbook that can apply, over one connection per node. Changes nothing."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.engine.ends import RunFailed, clean_end, failure_of, fault_in, in_words
from flows.engine.observe import context_of, failed_observation, observe, report_of
from flows.node_tools import tools_on
from flows.spec import RunbookSpec
from flows.specs import load_spec
from flows.ui_pages import report_links
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import slug
from runbooks.core.nightly import Result, SystemCheck
from runbooks.core.node_basics import NodeBasics
from runbooks.core.outcome import Outcome
from runbooks.core.report import Report
from tasks.context import Context, utc_now
from tasks.diagnostic import in_detail
from tasks.remote.node_basics import read_basics
from tasks.report_store import save
from tasks.shared import Shared
from tasks.ssh.far_side import log_before
from tasks.systems.from_node import begin_node
from tasks.systems.trying import Later
from tasks.transport.open import HostPool

NIGHTLY = "nightly"
BROKEN_OFF = "the sweep was broken off"
LOG_IN, NOT_ENTERED = "ssh-auth-failure", "not-entered"


class NodeAnswer(NamedTuple):
    """What one node, or another target, said."""

    results: list[Result]
    unread: list[str]  # what could not be read
    look: NodeBasics | None = None  # the first look at a node
    systems: tuple[SystemCheck, ...] = ()  # that are asked from it


@dataclass(frozen=True)
class Sweep:
    """What every node task of one sweep shares."""

    fleet: Fleet
    slugs: tuple[str, ...]
    folder: Path
    run_id: str
    trigger: str
    detail: bool = False  # each reading is a task run; else each node is one
    shared: Shared = field(default_factory=Shared)  # within this process: a part of the sweep in another reads by itself

    def go_on(self) -> None:
        """Raises RunFailed once the sweep was broken off: what is read from then on says nothing."""
        if self.shared.broken_off:
            raise RunFailed(BROKEN_OFF)


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
@clean_end
def check_node(sweep: Sweep, node: Node) -> NodeAnswer:
    """The doctor's look at one node, then every runbook while what is asked from it answers, over one connection. Never raises.

    A node that cannot be entered is asked one thing: at which stage its log-in stops. A key that it refused is not offered again.
    """
    names = [name for name in sweep.slugs if _applies(sweep, node, name)]
    try:
        with in_detail(node.name, sweep.detail):
            return _answer(sweep, node, names)
    except Exception as e:  # the others are looked at all the same
        failure = RunFailed(BROKEN_OFF) if sweep.shared.broken_off else failure_of(e)
    results = [_failed(node.name, name, failure) for name in names]
    said = f"{node.name}: the look at it failed: {failure}" + (f"; {failure.fault}" if failure.fault else "")
    return NodeAnswer(results, [said])


def _answer(sweep: Sweep, node: Node, names: list[str]) -> NodeAnswer:
    with sweep.shared.hosts() as pool:
        if node.second_way:
            log_before(Context(fleet=sweep.fleet, target=node.name, open_host=pool, shared=sweep.shared), node)
        first, later = _first(sweep, node, pool)
        if not (shut := first.shut):
            return _checked(sweep, node.name, names, pool)._replace(look=first, systems=later())
        found = _checked(sweep, node.name, [LOG_IN], pool).results[0]
    if found.outcome is Outcome.HEALTHY:  # it can be entered by now
        with sweep.shared.hosts() as pool:
            first, later = _first(sweep, node, pool)
            return _checked(sweep, node.name, names, pool)._replace(look=first, systems=later())
    unread = f"{node.name}: could not be entered, so not judged by {', '.join(names) or 'any runbook'}: {shut.detail}"
    return NodeAnswer([_shut(found, shut.detail)], [unread], first, later())


def _first(sweep: Sweep, node: Node, pool: HostPool) -> tuple[NodeBasics, Later]:
    """The small sweeps ask no system: they come every few minutes."""
    if sweep.trigger == NIGHTLY:
        return begin_node(sweep.fleet, node.name, pool(node), tools_on(sweep.fleet, node))
    return read_basics(pool(node)), tuple


def _shut(found: Result, why: str) -> Result:
    """The node needs a person, whatever the look at its log-in could tell."""
    more = {} if found.causes else {"causes": (NOT_ENTERED,)}
    headline = f"cannot be entered: {found.headline if found.causes else why}"
    return found.model_copy(update={"outcome": Outcome.UNHEALTHY, "headline": headline, "shut": True} | more)


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
@clean_end
def check_target(sweep: Sweep, target: str, name: str) -> NodeAnswer:
    """One runbook on something that is no node (all late workers of the orchestrator). Never raises."""
    with in_detail(target, sweep.detail), sweep.shared.hosts() as hosts:
        return _checked(sweep, target, [name], hosts)


def _checked(sweep: Sweep, target: str, names: list[str], hosts: HostPool) -> NodeAnswer:
    results = [r for name in names for r in _all(sweep, target, name, hosts)]
    unread = [f"{target}: {u}" for r in results for u in r.unknowns]
    return NodeAnswer(results, list(dict.fromkeys(unread)))


def _applies(sweep: Sweep, node: Node, name: str) -> bool:
    """Whether it applies; one that cannot even say so is run, and its failure shows in the report."""
    try:
        applies = load_spec(name).nightly
        return applies is not None and applies(sweep.fleet, node)
    except Exception:
        return True


def _all(sweep: Sweep, target: str, name: str, pool: HostPool) -> list[Result]:
    """One runbook on everything that a node or other target is: one look, with one time. Never raises."""
    began = utc_now()
    return [r.model_copy(update={"at": began}) for r in _each(sweep, target, name, pool)]


def _each(sweep: Sweep, target: str, name: str, pool: HostPool) -> list[Result]:
    try:
        spec = load_spec(name)
        whole = context_of(spec, sweep.fleet, target, sweep.folder, pool, sweep=sweep.trigger, shared=sweep.shared)
        parts = spec.parts(whole)
    except Exception as e:
        return [_failed(target, name, RunFailed(BROKEN_OFF) if sweep.shared.broken_off else e)]
    return [_one(sweep, spec, replace(whole, options=part), pool) for part in parts]


def _failed(target: str, name: str, error: Exception) -> Result:
    why, fault = f"{name} itself failed: {in_words(error)}", fault_in(error)
    unknown = f"{why}; {fault}" if fault else why
    return Result(node=target, runbook=name, outcome=Outcome.CANNOT_TELL, headline=why, unknowns=(unknown,))


def _one(sweep: Sweep, spec: RunbookSpec, context: Context, pool: HostPool) -> Result:
    """One look. Never raises."""
    began = time.monotonic()
    try:
        sweep.go_on()
        report = _diagnose(sweep, spec, context, pool)
        sweep.go_on()
        saved = save(report, _render(report), sweep.folder, keep=sweep.fleet.reports.keep)
    except Exception as e:
        return _failed(context.target, spec.slug, e)
    d = report.diagnosis
    return Result(
        node=context.target,
        runbook=spec.slug,
        outcome=report.outcome,
        headline=report.headline,
        causes=tuple(dict.fromkeys(c.slug for c in d.wrong)),
        do_now=d.do_now,
        unknowns=d.unknowns,
        costs=d.costs,
        report=str(saved.markdown or ""),
        seconds=time.monotonic() - began,
    )


def _render(report: Report) -> str:
    from runbooks.core.render import render

    return render(report, load_runbook(report.runbook))


def _diagnose(sweep: Sweep, spec: RunbookSpec, context: Context, pool: HostPool) -> Report:
    at = utc_now()
    try:
        evidence, diagnosis = observe(spec, context)
    except Exception as e:
        sweep.go_on()
        evidence, diagnosis = None, failed_observation(in_words(e), fault_in(e))
    return report_of(
        spec,
        context,
        diagnosis,
        evidence,
        at,
        id="-".join((sweep.run_id, slug(context.target, *map(str, context.options.values())))),
        trigger=sweep.trigger,
        flow_run=sweep.run_id,
        connection=pool.notes,
        links=report_links(sweep.run_id),
        guards=("diagnose mode: nothing was changed",) if diagnosis.plans else (),
    )
