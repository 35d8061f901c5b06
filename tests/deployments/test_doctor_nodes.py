"""doctor enters every node of the fleet file and says what each lacks, with the fix."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deployments.doctor.fleet import check_fleet, judged
from deployments.ports import free_port
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from tasks.gpu.act_quarantine import quarantine_node
from tasks.remote.node_basics import ASKED, parsed
from tests.deployments.test_cli import call
from tests.support.gpu_node import context
from tests.support.sshd import Sshd, make_key


def test_each_node_is_entered_and_what_is_wrong_is_named(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", "open") as sshd:
        other = make_key(tmp_path / "another")
        well, refused = sshd.node(), sshd.node(name="refused", key={"file": str(other)})
        closed = well.model_copy(update={"name": "closed", "port": free_port()})
        nodes = [n.model_dump(mode="json", exclude_defaults=True) for n in (well, refused, closed)]
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(yaml.safe_dump({"nodes": nodes}))
        done = call("doctor", "--fleet", str(fleet), "--json", GPU_RUNBOOKS_HOME=str(tmp_path / "home"))
    found = {c["name"]: c for c in json.loads(done.stdout) if c["name"].startswith("node ")}
    assert found["node open"]["state"] in ("ok", "note")
    assert found["node open"]["says"].startswith("entered; Python 3.")
    assert found["node refused"]["state"] == "FAULT"
    assert found["node closed"]["says"].startswith("unreachable: ")
    for name in ("refused", "closed"):
        assert found[f"node {name}"]["fix"].startswith(f"gpu-runbooks run ssh-auth-failure {name} names the stage")
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "state", "says"),
    [
        (["3", "11", "0", "1000"], "ok", "entered; Python 3.11; root"),
        (["3", "11", "1000", "1000"], "note", "as uid 1000: other users"),
        (["3", "5", "0", "1000"], "FAULT", "Python 3.5: most readings need 3.6"),
        (["none", "0", "1000"], "FAULT", "no Python 3"),
        (["3", "11", "0", "1400"], "note", "its clock is 397 s off ours"),
        (["3", "11", "0", "880"], "note", "its clock is 119 s off ours"),
    ],
)
def test_what_a_node_lacks(words: list[str], state: str, says: str) -> None:
    check = judged(parsed("n", words, 1000.0, 1002.0))
    assert check.state == state
    assert says in check.says


def test_a_shell_that_talks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.remote.node_basics.ASKED", "echo welcome to this machine; id -u")
    (check,) = check_fleet(Fleet(nodes=(Node(name="n", local=True),)))
    assert (check.state, "gives unexpected output" in check.says) == ("FAULT", True)


def test_a_quarantined_node_is_named_with_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the action that sets the mark to the command that takes it away, which works as printed."""
    path, fleet = tmp_path / "marks of gpus" / "quarantine.json", Fleet(nodes=(Node(name="node-a", local=True),))
    for room in ("runbooks.core", "tasks.remote"):
        monkeypatch.setattr(f"{room}.node_basics.QUARANTINE", str(path))
    (before,) = check_fleet(fleet)
    args = {"node": "node-a", "reason": "gpu-off-the-bus: GPU 3", "path": str(path)}
    quarantine_node(Step(kind="quarantine-node", owner="node-a", args=args, commands=("#",), effect="marked"), context())
    (check,) = check_fleet(fleet)
    assert check.state == "note"
    assert re.search(r"; quarantined since 20\d\d-\S+ \S+ UTC by gpu-runbooks: gpu-off-the-bus: GPU 3$", check.says), check.says
    way, _, command = check.fix.partition(": ")
    assert way == "once it is repaired, release it"
    subprocess.run(["sh", "-c", command], check=True)
    assert tuple(check_fleet(fleet)) == (before,)


@pytest.mark.parametrize("mark", ["closed by ops, see INC-4", "[]", '{"by": "gpu-'])
def test_a_mark_of_somebody_else_is_a_mark(mark: str) -> None:
    check = judged(parsed("n", ["3", "11", "0", "1000"], 1000.0, 1002.0, mark))
    assert (check.state, "quarantined by somebody: its mark does not say why" in check.says) == ("note", True)


def test_a_greeting_of_one_word_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.remote.node_basics.ASKED", f"echo hello; {ASKED}")
    (check,) = check_fleet(Fleet(nodes=(Node(name="n", local=True),)))
    assert (check.state, "gives unexpected output" in check.says) == ("FAULT", True)
