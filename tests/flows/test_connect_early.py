"""A run begins the connection to its node at once; the runbook that tries the log-in itself must be the first to log in."""

from pathlib import Path

import pytest
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.engine import entry
from runbooks.core.fleet import Node
from runbooks.core.policy import Mode
from tasks.transport.open import HostPool


def test_only_a_run_that_does_not_try_the_log_in_connects_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: [{name: far, host: 192.0.2.1}, {name: other, host: 192.0.2.2}]\n", encoding="utf-8")
    early: list[tuple[str, str]] = []
    ended: State[None] = Completed()
    for slug in ("zombie-gpu", "ssh-auth-failure"):

        def note(_: HostPool, node: Node, slug: str = slug) -> None:
            early.append((slug, node.name))

        monkeypatch.setattr(HostPool, "connect_early", note)
        monkeypatch.setattr(entry, "_prepared", lambda *_: None)
        monkeypatch.setattr(entry, "run_runbook", lambda *_: ended)
        request = entry.RunRequest("far", Mode.DIAGNOSE, str(fleet), None, "", None, "", {})
        assert entry._run(slug, request, "a-run") is ended
    assert early == [("zombie-gpu", "far")]
