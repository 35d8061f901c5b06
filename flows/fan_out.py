"""A target `label:KEY=VALUE`: starts one run per node that has the label, each with its own locks, approval and report."""

from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows import store
from flows.launch import deployment_name
from flows.ui_pages import UiPage, ui_path
from runbooks.core.clean import one_line
from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet
from runbooks.core.names import LABEL, there_are
from runbooks.core.names import slug as to_key
from runbooks.core.show import joined, link, markdown, md


def nodes_with(fleet: Fleet, target: str) -> tuple[str, ...]:
    """Nodes of that label, by name. Raises ConfigError when the label is malformed or nobody has it."""
    key, equals, value = target.removeprefix(LABEL).partition("=")
    if not (key and equals and value):
        raise ConfigError(f"target {target!r}: write {LABEL}KEY=VALUE")
    found = tuple(n.name for n in fleet.nodes if n.labels.get(key) == value)
    if not found:
        known = sorted({f"{k}={v}" for n in fleet.nodes for k, v in n.labels.items()})
        label = target.removeprefix(LABEL)
        raise ConfigError(f"target {target!r}: no node of fleet {fleet.name!r} has this label; {there_are(label, known)}")
    return found


def fan_out(slug: str, fleet: Fleet, parameters: dict[str, Any], run_id: str) -> State[Any]:
    """One scheduled run per node; a second call (Retry) finds the same runs. Ends at once: workers take them."""
    target = str(parameters["target"])
    runs = []
    for node in nodes_with(fleet, target):
        run = store.create_run(
            deployment_name(slug),
            parameters | {"target": node, "trigger": f"{target} (run {run_id})"},
            state=None,
            key=f"{run_id}/{node}",
            name=None,
            tags=[store.RUNBOOK_TAG, f"runbook:{slug}"],
            labels={"fan-out": run_id},
        )
        runs.append((node, run))
    rows = [markdown("| {} | {} |", node, link(run.name, ui_path(UiPage.RUN, str(run.id)))) for node, run in runs]
    about = one_line(f"{slug} on {len(runs)} node(s) with {target}")
    page = markdown("# {}\n\n{}\n", about, joined("\n", [markdown("| node | run |\n|---|---|"), *rows]))
    store.save_markdown(to_key("fan-out", slug, target), page, md(about, 250))
    store.label(run_id, {"headline": about})
    return Completed(name=f"{len(runs)} run(s) started", message=f"{about}: {', '.join(node for node, _ in runs)}"[:400])
