"""A node that cannot be entered is a finding of its own, with the named cause, once; and it needs a person."""

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml

from deployments.ports import free_port
from flows import store
from tests.support.engine_rig import Rig
from tests.support.sshd import Sshd, make_key


def nightly(rig: Rig, folder: Path, nodes: list[dict[str, Any]]) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """The report as data and as Markdown, and the run's labels."""
    fleet, id_file = folder / "fleet.yaml", rig.home / f"nightly-{os.urandom(4).hex()}.id"
    fleet.write_text(yaml.safe_dump({"name": f"shut-{os.urandom(4).hex()}", "nodes": nodes}))
    job = {"do": "run", "slug": "nightly", "parameters": {"fleet": str(fleet), "out": str(folder / "reports")}}
    assert rig.wait(rig.start(job | {"id_file": str(id_file)})) == 0
    labels = store.read_run(id_file.read_text()).labels
    return json.loads(Path(str(labels["report.json"])).read_text()), Path(str(labels["report"])).read_text(), labels


def test_two_of_three_nodes_that_cannot_be_entered_need_a_person(rig: Rig, tmp_path: Path) -> None:
    well = rig.world(sick=False)
    with Sshd(tmp_path / "sshd", "refuses") as sshd:
        other = make_key(tmp_path / "another")
        refused = sshd.node(key={"file": str(other)}).model_dump(mode="json", exclude_defaults=True)
        closed = refused | {"name": "closed", "port": free_port()}
        nodes = [{"name": well.name, "local": True}, refused, closed]
        report, page, labels = nightly(rig, tmp_path, nodes)
    assert labels["outcome"] == "sick"
    assert re.fullmatch(r"[23] of 3 nodes need a person; 2 could not be entered.*", report_line(page))  # the machine has limits of its own
    shut = {r["node"]: r for r in report["results"] if r["shut"]}
    assert sorted(shut) == ["closed", "refuses"]
    assert all(r["runbook"] == "ssh-auth-failure" for r in shut.values())
    assert all(r["causes"] for r in shut.values())  # named by the look at the log-in
    assert len([r for r in report["results"] if r["node"] == "closed"]) == 1  # once, not once per runbook
    for name in ("closed", "refuses"):
        (line,) = [x for x in report["not_read"] if x.startswith(f"{name}:")]
        assert "could not be entered, so not judged by zombie-gpu" in line
    assert "Nothing needs a person" not in page


def report_line(page: str) -> str:
    """The headline of a nightly report."""
    return next(line for line in page.splitlines() if line.startswith("**")).strip("*")
