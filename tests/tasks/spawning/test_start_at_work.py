"""A worker is not started beside the one that the pod's own start is about to bring: what runs in a real pod decides."""

import subprocess
from pathlib import Path

from deployments.lab.sshd import Sshd
from tests.tasks.spawning.conftest import POD, World
from tests.tasks.spawning.test_world import first, never_started

COPIES = "exec timeout 30 sh -c 'while true; do head -c 300000 /dev/zero; done > /dev/null'"  # ends though its connection is cut


def test_what_moves_in_the_pod_forbids_the_start(world: World) -> None:
    never_started(world)
    node = world.sshd.node()
    there = ["ssh", "-i", str(world.sshd.key), "-p", str(world.sshd.port), "-o", f"UserKnownHostsFile={world.sshd.known_hosts}",
             "-o", "BatchMode=yes", f"{node.user}@127.0.0.1", COPIES]  # fmt: skip
    copying = subprocess.Popen(there, stdin=subprocess.DEVNULL)
    try:
        _, found = world.look()
        said = found.causes[0]
        assert first(found) == "worker-not-started possible", said
        assert any("head -c 300000" in x or "while true; do head" in x for x in said.evidence), said.evidence
        assert not found.plans
    finally:
        copying.terminate()
        copying.wait(10)


def test_where_the_pods_own_processes_cannot_be_told_it_is_not_sure(world: World, tmp_path: Path) -> None:
    never_started(world)
    with Sshd(tmp_path, "other") as bare:  # its start carries no pod id
        bare.authorize(world.sshd.key)
        world.runpod.pods[POD].port = bare.port
        _, found = world.look()
    assert first(found) == "worker-not-started possible"
    assert not found.plans
