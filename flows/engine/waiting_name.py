"""What a run is called while it waits for a person: the list of runs in the UI is a list of what is to be decided."""

from prefect.client.schemas.objects import FlowRun

from flows import store
from runbooks.core.clean import one_line
from runbooks.core.plan import Plan

WAITS = ": waits for approve: "
LONGEST = 160  # characters: more is cut off in the UI


def usual_name(name: str) -> str:
    """The run's name without what it waits for. The flow gives itself this name whenever it goes on."""
    return name.partition(WAITS)[0]


def name_waiting(run_id: str, plans: tuple[Plan, ...]) -> None:
    """Names the run after the plan that it offers first."""
    others = f" (or {len(plans) - 1} other plan{'s' if len(plans) > 2 else ''})" if len(plans) > 1 else ""
    effect = "; ".join(dict.fromkeys(step.effect for step in plans[0].steps))
    asked = one_line(f"{plans[0].name}{others}: {effect}", LONGEST)
    store.rename(run_id, f"{usual_name(store.read_run(run_id).name)}{WAITS}{asked}")


def name_ended(run: FlowRun) -> None:
    """Gives a run that ended while it waited its usual name back: it waits for nobody any more."""
    if WAITS in run.name:
        store.rename(str(run.id), usual_name(run.name))
