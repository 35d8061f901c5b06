"""Whoever can write one key into etcd decides nothing of what the approver sees: a real run, Prefect's own form, Chromium."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deployments.state import auth_string
from flows import store
from flows.engine.approval import answer_run, asked_plans
from runbooks.core.clean import CONTINUED
from tests.flows.test_rendezvous import put_state, world
from tests.support.engine_rig import Rig
from tests.support.etcd import real_etcd
from tests.support.foreign import HOSTILE_RUN
from tests.support.ui import open_ui

HONEST = "llama-70b"


def joined(command: str) -> str:
    """A command whose long lines were wrapped for the form, in one."""
    return "".join(command.replace(f"\n{CONTINUED}", "").split())


def test_a_hostile_key_in_etcd_hides_nothing_and_offers_nothing(rig: Rig, tmp_path: Path) -> None:
    """A second run's id closes the fence of the command, shows a choice of its own and comments out the rest."""
    (tmp_path / "etcd").mkdir()
    with real_etcd(tmp_path / "etcd") as etcd, open_ui(rig.state.ui, auth_string()) as ui:
        for run_id in (HONEST, HOSTILE_RUN):
            put_state(etcd, run_id, datetime.now(UTC) - timedelta(hours=1))
        before = etcd.leaves()
        run = world(rig, tmp_path, etcd, "t").run("approve")
        waits = store.read_run(run).state
        assert waits is not None
        plans = asked_plans(run, str(waits.state_details.pause_key))
        commands = [c for p in plans for s in p.steps for c in s.commands]
        assert any(HONEST in c and "DELETE" in c for c in commands), commands
        ui.open_decision(run)
        text = ui.open_details()
        form = ui.page.get_by_role("dialog").locator(".prose")
        assert "nightly" in text, "the odd id is told of"
        shown = joined("\n".join(form.locator("pre").all_inner_texts()))
        for command in commands:
            assert joined(command) in shown, shown
        assert text.index("Asked because") < text.index("approve mode")
        heads = [h.strip() for h in form.locator("h3").all_inner_texts()]
        assert [h for h in heads if "Choice" in h] == [f"Choice {n}: “{p.name}”" for n, p in enumerate(plans, 1)]
        assert not any("nothing of value" in h for h in heads)
        assert form.locator("a, img, svg, iframe, script, table, hr, h1, h4, input, details details").count() == 0
        keyset = waits.state_details.run_input_keyset or {}
        offered = json.loads(str(store.read_input(run, str(keyset["schema"]))))["properties"]["choice"]
        assert offered.get("enum", [offered.get("const")]) == [p.name for p in plans]
        assert answer_run(run, {"decision": "reject", "who": "ana"}) == ""
        assert etcd.leaves() == before
