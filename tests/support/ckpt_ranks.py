"""A real distributed save by several ranks, and hosts of which each sees only its own disk at the job's path."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deployments.ports import free_port
from runbooks.core.checkpoints import Checkpoints, Tier
from runbooks.core.fleet import Fleet, Node
from runbooks.core.reading import UnknownReason
from tasks.context import Context
from tasks.transport.base import CommandResult, Host, TransportError
from tasks.transport.local import LocalHost
from tests.support.ckpt_files import need
from tests.support.ckpt_fleet import LIMITS

ENTER = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def _rank(rank: int, world: int, port: int, folder: str, step: int) -> None:
    torch = need("torch")
    dist: Any = torch.distributed
    dcp: Any = __import__("torch.distributed.checkpoint", fromlist=["save"])
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    state = {f"rank{rank}.weight": torch.full((64, 32), float(rank + step))} | ({"step": step} if rank == 0 else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()
    os._exit(0)  # the fork's copies of pytest's hooks must not run


def save_by_ranks(folder: Path, step: int, world: int = 4) -> Path:
    """One distributed checkpoint with a shard per rank, written by as many processes."""
    need("torch.distributed")
    port, fork = free_port(), multiprocessing.get_context("fork")
    ranks = [fork.Process(target=_rank, args=(r, world, port, str(folder), step)) for r in range(world)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join(90)
        assert p.exitcode == 0, f"a rank of the save ended with {p.exitcode}"
    return folder


def deal(whole: Path, hosts: Sequence[Path], world: int = 4) -> None:
    """Each host keeps the shards of its own ranks; rank 0's host keeps the marker."""
    each = world // len(hosts)
    for n, host in enumerate(hosts):
        target = host / whole.name
        target.mkdir(parents=True)
        for rank in range(n * each, (n + 1) * each):
            for shard in whole.glob(f"__{rank}_*.distcp"):
                shutil.copy2(shard, target / shard.name)
        if n == 0:
            shutil.copy2(whole / ".metadata", target / ".metadata")


class OwnDisk(LocalHost):
    """A host that has `disk` at the job's path."""

    def __init__(self, name: str, disk: Path, path: Path) -> None:
        super().__init__(name)
        self.disk, self.path = disk, path

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """As on this machine, in a mount namespace of its own."""
        inside = ["unshare", "-m", "sh", "-c", ENTER, "sh", str(self.disk), str(self.path), *argv]
        return super().run(inside, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)


def hosts_of(path: Path, disks: dict[str, Path], target: str, unread: Sequence[str] = (), **config: Any) -> Context:
    """A run on `target`; every host sees its own disk at `path`, and those of `unread` do not answer."""
    path.mkdir(parents=True, exist_ok=True)

    def open_host(node: Node) -> Host:
        if node.name in unread:
            raise TransportError(UnknownReason.UNREACHABLE, "no route to host")
        return OwnDisk(node.name, disks[node.name], path)

    tier = Tier(name="nvme", kind="nvme", path=str(path), shared=bool(config.pop("shared", False)))
    fleet = Fleet(nodes=tuple(Node(name=n, local=True) for n in disks), checkpoints=Checkpoints(tiers=(tier,), **config))
    return Context(fleet=fleet, target=target, open_host=open_host, limits=LIMITS, options={})
