"""Every outcome as Prefect's UI shows it: green is only what leaves nothing to do."""

import colorsys
import re
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import State, StateType
from prefect.states import Crashed, Suspended

from deployments.state import auth_string
from flows import store
from flows.engine.outcomes import end_state
from runbooks.core.outcome import Outcome
from tests.support.engine_rig import Rig
from tests.support.ui import Ui, open_ui

SHOWN = {  # outcome: type, name and colour
    Outcome.WAITING: (StateType.PAUSED, "Suspended", "grey"),
    Outcome.NOT_FIXED: (StateType.FAILED, "Not fixed", "red"),
    Outcome.PARTLY_FIXED: (StateType.FAILED, "Partly fixed", "red"),
    Outcome.UNFINISHED: (StateType.CRASHED, "Crashed", "orange"),
    Outcome.UNHEALTHY: (StateType.FAILED, "Something is wrong", "red"),
    Outcome.REFUSED: (StateType.FAILED, "Refused by a guard", "red"),
    Outcome.EXPIRED: (StateType.FAILED, "Not decided", "red"),
    Outcome.REJECTED: (StateType.FAILED, "Rejected", "red"),
    Outcome.CANNOT_TELL: (StateType.FAILED, "Cannot tell", "red"),
    Outcome.CANCELLED: (StateType.CANCELLED, "Cancelled", "grey"),
    Outcome.FIXED: (StateType.COMPLETED, "Fixed", "green"),
    Outcome.HEALTHY: (StateType.COMPLETED, "Healthy", "green"),
    Outcome.NOT_APPLICABLE: (StateType.COMPLETED, "Not applicable", "green"),
}
MADE_ELSEWHERE: dict[Outcome, State[Any]] = {Outcome.WAITING: Suspended(), Outcome.UNFINISHED: Crashed()}
"""By the question, and by the reaper."""


def test_the_ui_shows_each_outcome_by_its_name_and_colour(rig: Rig) -> None:
    tag = "colours-of-outcomes"
    for outcome in Outcome:
        state = MADE_ELSEWHERE.get(outcome) or end_state(outcome, "h")
        about: dict[str, Any] = {"parameters": {"target": "x"}, "key": f"{tag}/{outcome}", "labels": {}}
        about |= {"name": f"shows {outcome}.", "tags": [tag]}
        store.create_run("zombie-gpu/zombie-gpu", state=state, **about)
    runs = {r.name: r for r in store.find_runs([tag])}
    try:
        with open_ui(rig.state.ui, auth_string()) as ui:
            ui.go("/runs")
            ui.shows("shows healthy.")
            seen = {o: (runs[f"shows {o}."].state_type, *badge(ui, f"shows {o}.")) for o in Outcome}
    finally:
        for run in runs.values():
            delete(run.id)
    assert seen == SHOWN


def delete(run: UUID) -> None:
    store.ask(lambda c: c.delete_flow_run(run))


def badge(ui: Ui, name: str) -> tuple[str, str]:
    """Text and colour of the state that stands on a run's card in the list of runs."""
    found = ui.page.get_by_role("link", name=name, exact=True).locator("xpath=following::span[contains(@class, 'bg-state-')][1]")
    return found.inner_text().strip(), colour(found.evaluate("e => getComputedStyle(e).color"))


def colour(css: str) -> str:
    """The name of a CSS colour `rgb(r, g, b)`."""
    red, green, blue = (int(n) / 255 for n in re.findall(r"\d+", css)[:3])
    hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    if saturation < 0.25:
        return "grey"
    words = ((12, "red"), (50, "orange"), (75, "yellow"), (170, "green"), (320, "blue"), (361, "red"))
    return next(word for end, word in words if hue * 360 < end)
