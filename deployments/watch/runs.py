"""The watch's runs in Prefect: one per death, found again after a restart, never two at once about a container."""

from typing import TYPE_CHECKING

from flows import store
from flows.clock import server_now
from flows.engine.liveness import joinable
from flows.engine.state_table import OPEN
from flows.launch import create_pending
from runbooks.container.watching import Case
from runbooks.core.base import Frozen
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.names import slug
from runbooks.core.outcome import Outcome
from tasks.this_machine import Owner, this_process

if TYPE_CHECKING:
    from deployments.watch.settings import Settings

SLUG = "container-death"


class Found(Frozen):
    """A run about a container. `ours`: this process created it and must run it."""

    run: str
    ours: bool


class RunProgress(Frozen):
    """How far a run is. `over`: it has ended or waits for a person."""

    over: bool
    outcome: Outcome | None = None
    causes: tuple[str, ...] = ()


def adopt(fleet: str, it: ManagedContainer, case: Case) -> Found | None:
    """A run about the same container that somebody living is at work on, whoever started it; one that waits for a person
    only about the same life. A new death is not held back by a question about an older one, nor by the removal of a kept one.
    """
    died = case.trouble.key.startswith("died-")
    for run in (r for r in store.find_runs([store.RUNBOOK_TAG, f"runbook:{SLUG}"], OPEN) if joinable(r, server_now())):
        options = run.parameters.get("options") or {}
        if options.get("remove_kept") or (died and run.state is not None and run.state.is_paused()):
            continue
        same = run.parameters.get("target") == it.node and options.get("container", it.name) == it.name
        if same and run.labels.get("fleet", fleet) == fleet:
            return Found(run=str(run.id), ours=False)
    return None


def open_run(fleet: str, it: ManagedContainer, case: Case, settings: "Settings") -> Found:
    """Creates the run about this fault and try; a death's run that another life of the watch created is found again."""
    once = "" if case.trouble.key.startswith("died-") else f"-{case.since.timestamp():.0f}"
    key = f"watch/{slug(fleet)}/{slug(it.node)}/{slug(it.name)}/{case.trouble.key}{once}/{case.tries}"
    parameters = {
        "target": it.node, "mode": settings.mode.value, "fleet": settings.fleet, "policy": settings.policy,
        "out": settings.out, "choice": "", "options": {"container": it.name}, "trigger": f"watch: {case.trouble.words}",
    }  # fmt: skip
    run = create_pending(SLUG, parameters, key)
    mine = Owner.from_labels(dict(run.labels)) == this_process() and bool(run.state and run.state.is_pending())
    return Found(run=str(run.id), ours=mine)


def answer_of(run_id: str) -> RunProgress:
    """How far that run is."""
    run = store.read_run(run_id)
    if run.state is None or not (run.state.is_final() or run.state.is_paused()):
        return RunProgress(over=False)
    outcome = Outcome.WAITING if run.state.is_paused() else _outcome(str(run.labels.get("outcome", "")))
    return RunProgress(over=True, outcome=outcome, causes=tuple(str(run.labels.get("causes", "")).split(",")))


def _outcome(text: str) -> Outcome | None:
    try:
        return Outcome(text)
    except ValueError:
        return None
