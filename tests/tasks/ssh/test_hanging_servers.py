"""Nodes that are reached and run nothing: each runbook ends in time, names no cause of its own for it, and plans nothing."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.sshd import Sshd, make_key, public_key
from runbooks.container import diagnose as container_death
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Fleet, KeySource, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.ray_config import RayCluster
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu import diagnose as zombie_gpu
from runbooks.host import diagnose as host_limits
from runbooks.ray import diagnose as ray_job
from tasks.container.read import gather_container_death
from tasks.context import Context
from tasks.gpu.read import gather_zombie_gpu
from tasks.host.read import gather_host_limits
from tasks.ray.read import gather_ray_job
from tasks.transport.open import HostPool
from tests.tasks.ssh.test_odd_servers import server

RUNBOOKS: dict[str, tuple[Any, Callable[[Context], Any]]] = {
    "container-death": (container_death, gather_container_death),
    "ray-job": (ray_job, gather_ray_job),
    "host-limits": (host_limits, gather_host_limits),
    "zombie-gpu": (zombie_gpu, gather_zombie_gpu),
}
IN_TIME_S = 40.0


@contextmanager
def no_banner(_way: str, _key: Path) -> Iterator[int]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield int(door.getsockname()[1])


def judge(slug: str, node: Node, pool: HostPool) -> Diagnosis:
    """The runbook on that node, which is head and container host as well."""
    box, ray = ManagedContainer(name="box", node=node.name), RayCluster(head=node.name, nodes={"10.0.0.1": node.name})
    module, gather = RUNBOOKS[slug]
    limits = load_runbook(slug).limit_values()
    fleet = Fleet(nodes=(node,), containers=(box,), ray=ray)
    context = Context(fleet=fleet, target=node.name, open_host=pool, limits=limits)
    found = module.diagnose(gather(context), module.Limits(**limits))
    assert isinstance(found, Diagnosis)
    return found


def not_reached(slug: str, node: Node, pool: HostPool) -> None:
    """It says so, in time, and nothing else."""
    began = time.monotonic()
    found = judge(slug, node, pool)
    assert time.monotonic() - began < IN_TIME_S
    assert found.state is State.CANNOT_TELL, found.headline
    assert found.plans == ()
    assert all(c.certainty is Certainty.POSSIBLE and c.slug == "head-unreachable" for c in found.causes), found.causes


@pytest.mark.parametrize("slug", RUNBOOKS)
@pytest.mark.parametrize("way", ["refuse", *(pytest.param(w, marks=pytest.mark.soak)
                                            for w in ("no-banner", "silent", "flood", "deaf", "no-status"))])  # fmt: skip
def test_a_node_that_runs_nothing_is_not_reached(folder: Path, way: str, slug: str) -> None:
    own, host = make_key(folder / "own"), make_key(folder / "host")
    with (no_banner if way == "no-banner" else server)(way, host) as port:
        node = Node(name="odd", host="127.0.0.1", port=port, user="op", key=KeySource(file=str(own)),
                    host_key=public_key(host), connect_timeout_s=1)  # fmt: skip
        pool = HostPool()
        not_reached(slug, node, pool)
        pool.close_all()


@pytest.mark.soak
@pytest.mark.parametrize("slug", RUNBOOKS)
def test_a_session_that_stops_after_the_login(folder: Path, slug: str) -> None:
    """A real sshd whose process for us is stopped: the connection stands and nothing comes."""
    sshd, pool = Sshd(folder, "far").start(), HostPool()
    node = sshd.node(connect_timeout_s=2)
    pool(node).run(["true"])
    held = sshd.sessions()
    assert held
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    try:
        not_reached(slug, node, pool)
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)
        pool.close_all()
        sshd.stop()
