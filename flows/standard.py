"""The one shape of a runbook's flow: same parameters, same form in the UI, the engine behind it."""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import get_current_settings

from flows.engine.ends import clean_end
from flows.engine.entry import RunRequest, run_by_name
from flows.form import NOT_TYPED, Options, options_type, target_type, without
from runbooks.core.knowledge import load_runbook
from runbooks.core.policy import Mode

ARGS = """

    Args:
        target: {about} {changes} Target: {target}
        mode: “diagnose” reads and reports, and changes nothing. “approve” shows a person the whole plan and asks before any change. “auto” acts alone only if the policy file names the action; otherwise it asks.
        options: {options}
        choice: {choice}
        fleet: fleet file. Default: the worker's (GPU_RUNBOOKS_FLEET), otherwise only this machine.
        policy: policy file. Default: the worker's (GPU_RUNBOOKS_POLICY), otherwise no action is automatic.
        out: folder for the reports. Default: the folder in the fleet file.
        trigger: what started this run, for the report. Default: what the server knows of it.
"""  # noqa: E501 - the UI shows each line as one paragraph, and its second version no Markdown in it
CHANGES = "In the modes approve and auto it may: {}."
NO_CHANGES = "Changes nothing."
NO_OPTIONS = "this runbook has none."
NO_PLANS = "this runbook offers no plan; leave it empty."
A_PLAN = 'name of the plan to prefer, for example "{}".'
SOME_OPTIONS = "more facts for this runbook; leave empty what you do not know."


def standard_flow(slug: str, about: str, target: str) -> Flow[..., State[Any]]:
    """A runbook as a Prefect flow named like its slug. `about` and `target` are what the UI says of it."""
    kind = options_type(slug)
    empty = kind()

    def runbook(
        target: str,
        mode: Mode = Mode.DIAGNOSE,
        options: Options = empty,
        choice: str = "",
        fleet: str | None = None,
        policy: str | None = None,
        out: str | None = None,
        trigger: str = "",
    ) -> State[Any]:
        return run_by_name(slug, RunRequest(target, mode, fleet, policy, choice, out, trigger, options.given()))

    runbook.__annotations__ |= {"target": target_type(slug), "options": kind}
    runbook.__name__ = runbook.__qualname__ = slug.replace("-", "_")
    words = SOME_OPTIONS if kind.model_fields else NO_OPTIONS
    book = load_runbook(slug)
    changes = CHANGES.format(", ".join(book.actions)) if book.actions else NO_CHANGES
    choice = A_PLAN.format(book.plan) if book.plan else NO_PLANS
    about, target = about.replace("`", ""), target.replace("`", "")
    runbook.__doc__ = about + ARGS.format(about=about, changes=changes, target=target, options=words, choice=choice)
    flow = Flow(
        fn=clean_end(runbook),
        name=slug,
        flow_run_name=f"{slug} {{target}}",
        persist_result=False,
        result_storage=get_current_settings().results.local_storage_path,  # unused, but without it each run asks the server, twice
        retries=0,
    )
    return without(*NOT_TYPED, *(() if kind.model_fields else ("options",)))(flow)
