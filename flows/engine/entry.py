"""From the plain parameters of a flow to a run of the engine."""

from dataclasses import dataclass, replace
from typing import Any

from prefect.client.schemas.objects import State

from flows.config import fleet_file, load_fleet, load_policy, with_target
from flows.current_run import current_run
from flows.engine.engine import run_runbook
from flows.engine.log_pipe import outlive_the_pipe
from flows.engine.observe import context_of
from flows.engine.outcomes import failed_without_report, publish_bad_config
from flows.engine.ownership import own_run
from flows.engine.progress import run_timeline
from flows.engine.run import Run, current_run_id
from flows.engine.run_record import RunRecord
from flows.engine.stopping import own_end
from flows.fan_out import fan_out
from flows.spec import RunbookSpec, about_one
from flows.specs import load_spec
from flows.store import LONGEST_NAME
from runbooks.core.clean import one_line
from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet, Reports
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import LABEL
from runbooks.core.policy import Mode, Policy
from tasks.context import utc_now
from tasks.installation import installation_redactor
from tasks.report_store import history, reports_root
from tasks.transport.open import HostPool


@dataclass(frozen=True)
class RunRequest:
    """The parameters that a runbook's flow was given."""

    target: str
    mode: Mode
    fleet: str | None
    policy: str | None
    choice: str
    out: str | None
    trigger: str
    options: dict[str, Any]


def run_by_name(slug: str, request: RunRequest) -> State[Any]:
    """Runs the runbook `slug` inside the current flow run. Bad configuration ends in a report as well."""
    outlive_the_pipe()
    request = replace(request, trigger=request.trigger or started_by())
    run_id = current_run_id()
    try:
        return own_end(run_id, _run(slug, request, run_id))
    except ConfigError as e:
        own_run(run_id, {"runbook": slug, "target": request.target})
        folder = reports_root(request.out or Reports().folder)
        return own_end(
            run_id, publish_bad_config(slug, request.target, request.mode, request.trigger, run_id, folder, str(e))
        )
    except Exception as e:
        failure = failed_without_report(run_id, e)
    raise failure


def started_by() -> str:
    """What started a run of which nobody said it: the server knows its schedules and automations, else a person did."""
    run = current_run()
    by = run.created_by if run else None
    if by is None or by.type not in ("SCHEDULE", "AUTOMATION"):
        return "by hand"
    return one_line(installation_redactor().text(f"{by.type.lower()} {by.display_value}"), LONGEST_NAME)


def _run(slug: str, request: RunRequest, run_id: str) -> State[Any]:
    spec = load_spec(slug)
    given = load_fleet(request.fleet)
    if request.target.startswith(LABEL):
        own_run(run_id, {"runbook": slug, "target": request.target})
        return fan_out(slug, given, dict(vars(request)), run_id)
    full, target = with_target(given, request.target, fleet_file(request.fleet) is not None, spec.targets(given))
    with HostPool() as pool:
        if (node := next((n for n in full.nodes if n.name == target), None)) and not spec.logs_in:
            pool.connect_early(node)
        return run_runbook(_prepared(spec, request, run_id, full, target, pool), pool)


def _prepared(spec: RunbookSpec, request: RunRequest, run_id: str, full: Fleet, target: str, pool: HostPool) -> Run:
    folder = reports_root(request.out or full.reports.folder)
    record = RunRecord(
        started_at=(run.start_time if (run := current_run()) else None) or utc_now(),  # before a wait for a person, if there was one
        trigger=request.trigger,
        folder=folder,
        timeline=run_timeline(),
        tags={"fleet": full.name, "target": target, "runbook": spec.slug},
    )
    own_run(run_id, record.tags)
    record.resume_from(history(folder, spec.slug, target), run_id)

    def reread() -> tuple[Fleet, Policy, dict[str, Any]]:
        now, _ = with_target(load_fleet(request.fleet), request.target, bool(request.fleet), spec.targets(full))
        return now, load_policy(request.policy), load_runbook(spec.slug).limit_values(now.limits.get(spec.slug))

    return Run(
        spec=spec,
        reread=reread,
        fleet=full,
        policy=load_policy(request.policy),
        context=about_one(spec, context_of(spec, full, target, folder, pool, request.options)),
        mode=request.mode,
        choice=request.choice,
        run_id=run_id,
        record=record,
    )
