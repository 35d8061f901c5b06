"""A node is looked at once, first of all: one that cannot be entered is a finding of its own, and a quarantine is seen."""

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from deployments.doctor.check import Check
from deployments.doctor.fleet import check_fleet
from deployments.ports import free_port
from flows import store
from runbooks.core.fleet import Fleet
from runbooks.core.node_basics import QUARANTINE
from tests.support.engine_rig import Rig
from tests.support.sshd import Sshd, make_key


def nightly(rig: Rig, folder: Path, nodes: list[dict[str, Any]], **more: Any) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """The report as data and as Markdown, and the run's labels."""
    fleet, id_file = folder / "fleet.yaml", rig.home / f"nightly-{os.urandom(4).hex()}.id"
    fleet.write_text(yaml.safe_dump({"name": f"shut-{os.urandom(4).hex()}", "nodes": nodes} | more))
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
        assert sshd.read_log().count("Failed publickey") == 1, "a key that was refused is offered once in a sweep"
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


def test_every_system_of_the_fleet_file_is_tried_and_told_with_its_fix(rig: Rig, tmp_path: Path) -> None:
    """From here and from the node that asks it; the same lines as the doctor's."""
    well, at = rig.world(sick=False), f"http://127.0.0.1:{free_port()}"
    node, systems = {"name": well.name, "local": True}, [{"name": "registry", "url": at}]
    sections = {"systems": systems, "leader": {"url": at}, "ray": {"head": well.name, "dashboard": at}}
    report, page, labels = nightly(rig, tmp_path, [node], **sections)
    said: list[Check] = list(check_fleet(Fleet.model_validate({"nodes": [node], **sections})))[1:]
    assert [(s["name"], s["state"], s["fix"]) for s in report["systems"]] == [(c.name, c.state, c.fix) for c in said]
    assert [s["reachable"] for s in report["systems"]] == [False, False, False]
    assert "no answer from registry, leader, ray" in report_line(page)
    for check in said:
        assert f"fix: {check.fix}" in re.sub(r"[\\`]", "", page)
        assert f"{check.name} " in str(labels["table"])


@contextmanager
def answers_once_knocked() -> Iterator[tuple[str, str]]:
    """A page that is not answered before somebody has connected to a second address. Both addresses."""
    with socket.create_server(("127.0.0.1", 0)) as page, socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            with suppress(OSError), page.accept()[0] as asks:
                asks.recv(4096)
                door.accept()[0].close()
                asks.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{page.getsockname()[1]}/", f"127.0.0.1:{door.getsockname()[1]}"


def test_no_node_waits_for_a_system_that_is_slow(rig: Rig, tmp_path: Path) -> None:
    """The page answers only after the node was looked at; one after the other it never would."""
    well = rig.world(sick=False)
    with answers_once_knocked() as (page, door):
        place = {"name": "p2p", "backends": ["c10d"], "endpoints": [door], "nodes": [well.name]}
        node, systems = {"name": well.name, "local": True}, [{"name": "slow", "url": page, "timeout_s": 40}]
        report, _, _ = nightly(rig, tmp_path, [node], systems=systems, rendezvous=[place])
    assert [(s["name"], s["state"]) for s in report["systems"]] == [("slow", "ok"), ("rendezvous p2p", "ok")], report["systems"]


def report_line(page: str) -> str:
    """The headline of a nightly report."""
    return next(line for line in page.splitlines() if line.startswith("**")).strip("*")


HEARD = """#!/bin/sh
printf '%s\\0' "$SSH_ORIGINAL_COMMAND" >> {folder}/heard
exec sh -c "$(printf %s "$SSH_ORIGINAL_COMMAND" | sed 's#{there}#{folder}/mark#g')"
"""


def heard(folder: Path) -> list[str]:
    """Commands since the last call."""
    found = (folder / "heard").read_text().split("\0")[:-1]
    (folder / "heard").unlink()
    return found


def test_doctor_and_nightly_look_once_at_a_node_and_see_its_quarantine(rig: Rig, tmp_path: Path) -> None:
    """One log-in each; the look is the same command, and the nightly asks it once for all its runbooks."""
    script = tmp_path / "hear"
    script.write_text(HEARD.format(folder=tmp_path, there=QUARANTINE))
    script.chmod(0o755)
    (tmp_path / "mark").write_text('{"by": "ana", "at": "2026-03-09T04:00:00+00:00", "reason": "gpu-off-the-bus: GPU 3"}')
    said = "quarantined since 2026-03-09 04:00:00 UTC by ana: gpu-off-the-bus: GPU 3"
    with Sshd(tmp_path / "sshd", rig.world(sick=False).name, options={"ForceCommand": str(script)}) as sshd:
        (check,) = check_fleet(Fleet(nodes=(sshd.node(),)))
        (asked,) = heard(tmp_path)
        assert len(entered(sshd)) == 1
        nodes = [sshd.node().model_dump(mode="json", exclude_defaults=True)]
        report, page, labels = nightly(rig, tmp_path, nodes)
        commands = heard(tmp_path)
        assert len(entered(sshd)) == 2  # the second is the nightly's
    assert said in check.says
    assert commands[0].partition("echo none")[2] == asked.partition("echo none")[2]  # each run has a marker of its own
    assert len([c for c in commands if QUARANTINE in c]) == 1
    assert len(commands) > 1, "no runbook read anything"
    assert [look["node"] for look in report["looks"]] == [sshd.name]
    assert "; 1 quarantined" in report_line(page)
    assert f"- {sshd.name}: {said} (once it is repaired, release it: rm {QUARANTINE})" in said_by(page)
    assert said in str(labels["table"])


def entered(sshd: Sshd) -> list[str]:
    """Log-ins so far."""
    return [line for line in sshd.read_log().splitlines() if "Accepted publickey" in line]


def said_by(page: str) -> list[str]:
    """The page's lines without Markdown's signs."""
    return page.replace("\\", "").splitlines()
