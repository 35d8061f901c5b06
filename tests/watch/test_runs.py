"""Which run the watch takes for the one about a fault: never a question about an older death."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.watch import runs
from flows import store
from runbooks.container.watching import Case, ContainerFault
from runbooks.core.containers_config import ManagedContainer

NOW = datetime(2026, 3, 2, tzinfo=UTC)
IT = ManagedContainer(name="w1", node="n")


def found(
    monkeypatch: pytest.MonkeyPatch, key: str, paused: bool, target: str = "n", joins: bool = True, **options: str
) -> bool:
    state = SimpleNamespace(is_paused=lambda: paused)
    run = SimpleNamespace(id="r", state=state, labels={"fleet": "f"}, parameters={"target": target, "options": options})
    monkeypatch.setattr(runs, "joinable", lambda found, at: joins and (found is run, at) == (True, NOW))
    monkeypatch.setattr(runs, "server_now", lambda: NOW)
    monkeypatch.setattr(store, "find_runs", lambda *_: [run])
    case = Case(trouble=ContainerFault(key=key, words=""), since=NOW, next_at=NOW)
    return runs.adopt("f", IT, case) is not None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"key": "died-a", "paused": False}, True),
        ({"key": "died-a", "paused": True}, False),
        ({"key": "app-a", "paused": True}, True),
        ({"key": "died-a", "paused": False, "joins": False}, False),  # nobody living is at work on it, or it is ending
        ({"key": "app-a", "paused": True, "joins": False}, False),
        ({"key": "died-a", "paused": False, "container": "w1"}, True),
        ({"key": "died-a", "paused": False, "container": "w2"}, False),
        ({"key": "died-a", "paused": False, "target": "other"}, False),
        ({"key": "app-a", "paused": True, "container": "w1", "remove_kept": "yes"}, False),
    ],
)
def test_which_run_is_taken(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], taken: bool) -> None:
    assert found(monkeypatch, **given) is taken
