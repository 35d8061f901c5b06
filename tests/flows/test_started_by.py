"""What a report says started the run, where neither a program nor a person said it."""

from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.engine import entry

SECRET = "hf_" + "aQ7" * 12


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (None, "by hand"),
        ({"type": "DEPLOYMENT", "display_value": "zombie-gpu"}, "by hand"),
        ({"type": "SCHEDULE", "display_value": "nightly"}, "schedule nightly"),
        ({"type": "AUTOMATION", "display_value": f"on alert\n{SECRET}"}, "automation on alert <secret"),
    ],
)
def test_the_server_knows_its_schedules_and_automations(by: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FlowRun(flow_id=uuid4(), created_by=by)
    monkeypatch.setattr(entry, "current_run", lambda: run)
    found = entry.started_by()
    assert found.startswith(said)
    assert SECRET not in found
    assert "\n" not in found


def test_outside_of_a_run_a_person_did() -> None:
    assert entry.started_by() == "by hand"
