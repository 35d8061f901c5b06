"""The same programs over a real SSH connection: scan, proof, and an act."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.checkpoints import Checkpoints
from runbooks.core.fleet import Fleet
from tasks.context import Context
from tasks.transport.ssh import SshHost
from tests.support.ckpt_fleet import LIMITS, Shelf, do, folder, look, plan
from tests.support.sshd import Sshd


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path, "ckpt") as server:
        yield server


def test_scan_prove_and_quarantine(sshd: Sshd, shelf: Shelf, tmp_path: Path) -> None:
    nvme = tmp_path / "nvme"
    good, bad = shelf.put(nvme, 100, 200)
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(bytes(data))
    node = sshd.node()
    host = SshHost(node)
    config = Checkpoints(tiers=(folder("nvme", nvme),))
    fleet = Fleet(nodes=(node,), checkpoints=config)
    ctx = Context(fleet=fleet, target=node.name, open_host=lambda _: host, limits=LIMITS)
    try:
        _, got = look(ctx)
        assert got.headline.startswith("Resume from step 100 on nvme (structure and every byte")
        (step,) = plan(got, "quarantine the bad ones").steps
        do(step, ctx)
    finally:
        host.close()
    assert good.exists()
    assert not bad.exists()
    assert len(list(nvme.iterdir())) == 2
