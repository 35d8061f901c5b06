"""What a run asks at this moment, for whoever shows it outside Prefect's form."""

import json
from dataclasses import dataclass
from datetime import datetime

from flows import store
from flows.engine.approval import EXPIRES, asked_plans, question_key
from runbooks.core.plan import Plan
from runbooks.core.show import Markdown, kept
from runbooks.core.times import read_time


@dataclass(frozen=True)
class OpenQuestion:
    """The question that a run waits with."""

    text: Markdown  # whole, with commands that can be pasted
    plans: tuple[Plan, ...]
    since: datetime | None
    until: datetime | None  # after it nobody's answer counts


def open_question(run_id: str) -> OpenQuestion | None:
    """What that run asks at this moment; None if it does not wait for an answer."""
    run = store.read_run(run_id)
    key = run.state.state_details.pause_key if run.state is not None and run.state.is_paused() else None
    if run.state is None or not key:
        return None
    text = store.read_input(run_id, question_key(key)) or store.read_input(run_id, f"suspended-{key}-description")
    until = read_time(str(run.labels.get(EXPIRES, "")))
    return OpenQuestion(kept(json.loads(text)) if text else Markdown(""), asked_plans(run_id, key), run.state.timestamp, until)
