"""create-checkpoint-folder through the engine: found, approved, done, verified as fixed. CONTRIBUTING.md prints this file."""

import os
from pathlib import Path

from tests.faults.real import RealWorld, outcome
from tests.support.ckpt_fleet import Shelf
from tests.support.engine_rig import Rig


def test_the_folder_is_created_when_a_person_approves(rig: Rig, shelf: Shelf, tmp_path: Path) -> None:
    """`rig`: a server and processes that run a runbook. `shelf`: whole checkpoints, here for what makes the rest healthy."""
    node = f"n{os.urandom(4).hex()}"  # a name of its own: locks are on nodes, and no test waits for another
    full, missing = tmp_path / "full", tmp_path / "missing"
    shelf.put(full, 100)
    tiers = [{"name": path.name, "kind": "nvme", "path": str(path)} for path in (full, missing)]
    fleet = {"nodes": [{"name": node, "local": True}], "checkpoints": {"tiers": tiers}}
    w = RealWorld(rig, tmp_path, "checkpoint-fallback", node, fleet)
    run = w.run("approve")
    assert outcome(run) == "waiting", w.report()["timeline"]
    (plan,) = w.report()["diagnosis"]["plans"]
    assert [step["kind"] for step in plan["steps"]] == ["create-checkpoint-folder"]
    assert not missing.exists(), "nothing is changed before the approval"
    w.approve(run)
    assert outcome(run) == "fixed", w.report()["timeline"]
    assert missing.is_dir()
    assert w.report()["after"]["state"] == "healthy", "it was read and judged again"
    w.check(max_acts=1)  # the run has ended, its lock is free, and it acted once
