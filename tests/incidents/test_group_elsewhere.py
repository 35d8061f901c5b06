"""A run whose ranks are on two nodes: real processes, each node with its own stub driver; what waits here waits for one there."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deployments.lab.gpu import StubDriver
from runbooks.core.fleet import Fleet, Job, Node
from runbooks.core.reading import Known, UnknownReason
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.evidence import Evidence
from tasks.context import Context
from tasks.transport.base import Host, TransportError
from tasks.transport.local import LocalHost
from tasks.transport.open import HostPool
from tests.incidents.test_group import SHORT, cards, verdicts
from tests.runbooks.gpu.build import judge
from tests.runbooks.gpu.test_situations import killed
from tests.support.gpu_fixtures import built, copied, driver  # noqa: F401 - fixtures
from tests.support.gpu_node import context, gather
from tests.support.other_node import OtherNode
from tests.support.waiting import until

READY = "import sys, time\nopen(sys.argv[1] + '.ready', 'w').close()\n"  # who still starts up is at work
WAITS = READY + "while True: time.sleep(1)"
SAVES = READY + "f = open(sys.argv[2], 'wb', buffering=0)\nwhile True: f.write(b'x' * 65536); time.sleep(0.02)"
ZG08 = {"fed": "readers", "known": True}


@contextmanager
def rank(number: int, code: str, folder: Path) -> Iterator[int]:
    """A rank of a world of two; the folder's name tells its command from those of other tests."""
    argv = command(number, code, folder)
    with subprocess.Popen(argv, start_new_session=True) as process:
        try:
            until(Path(f"{folder}/rank-{number}.ready").exists)
            yield process.pid
        finally:
            process.kill()


def command(number: int, code: str, folder: Path) -> list[str]:
    env = [f"RANK={number}", "WORLD_SIZE=2", "MASTER_ADDR=node-a", "MASTER_PORT=29511"]
    return ["env", *env, sys.executable, "-c", code, f"{folder}/rank-{number}", str(folder / "step-70.pt.tmp")]


@contextmanager
def rank_on(node: OtherNode, number: int, code: str, folder: Path) -> Iterator[int]:
    """The same on another node; its pid as that node numbers it. It ends with the node."""
    told = folder / f"rank-{number}.pid"
    script = f"echo $$ >{told}.new; mv {told}.new {told}; exec \"$@\""
    with subprocess.Popen([*node.inside(), "sh", "-c", script, "sh", *command(number, code, folder)], start_new_session=True) as process:
        try:
            until(Path(f"{folder}/rank-{number}.ready").exists)
            yield int(told.read_text())
        finally:
            process.kill()
            node.stop()


def two_nodes(mine: StubDriver, theirs: StubDriver, folder: Path, reached: bool = True) -> Context:
    """Both nodes are this machine; the job's ranks on each are told by their commands, as two machines would show them."""
    nodes = tuple(Node(name=n, local=True, labels=d.labels()) for n, d in (("node-a", mine), ("node-b", theirs)))
    both = Job(name="train", match=f"{folder}/rank-0", nodes=("node-a", "node-b"), warm_up_s=0)
    there = Job(name="train-there", match=f"{folder}/rank-1", nodes=("node-b",), warm_up_s=0)

    def open_host(node: Node) -> Host:
        if node.name == "node-b" and not reached:
            raise TransportError(UnknownReason.UNREACHABLE, "no route to host", "ssh node-b")
        return LocalHost(node.name)

    ctx = context(mine)
    return replace(ctx, fleet=Fleet(name="test", nodes=nodes, jobs=(both, there)), open_host=open_host)


def judged(ctx: Context) -> tuple[Evidence, Diagnosis]:
    """Two looks, the second with the first as its earlier report."""
    first = gather(ctx)
    time.sleep(2)
    seen = gather(replace(ctx, earlier={"id": "r-1", "evidence": first.model_dump(mode="json")}))
    return seen, judge(seen, **SHORT)


@pytest.mark.incident("ZG08", came="right", twin="the one that saves is on another node", **ZG08)
def test_a_mate_on_another_node_is_at_work(driver: StubDriver, built: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    """node-b is read over SSH and numbers its processes itself."""
    theirs = copied(built, tmp_path / "b")
    with OtherNode(tmp_path, "node-b") as other, rank(0, WAITS, tmp_path) as here, rank_on(other, 1, SAVES, tmp_path) as there:
        driver.show(*cards([here]))
        theirs.show(*cards([there]))
        ctx = two_nodes(driver, theirs, tmp_path)
        with HostPool() as pool:
            nodes = (ctx.fleet.nodes[0], other.node(labels=theirs.labels(), connect_timeout_s=60))
            seen, d = judged(replace(ctx, fleet=ctx.fleet.model_copy(update={"nodes": nodes}), open_host=pool))
    assert isinstance(seen.elsewhere, Known), seen.elsewhere
    assert there < 100, "a pid of its own namespace"
    assert verdicts(d, [here])[here] == ("waits-for-its-mate", Certainty.CONFIRMED)
    assert any(f"pid {there}" in line and "on node-b" in line for c in d.causes for line in c.evidence)
    assert (d.state, d.plans) == (State.HEALTHY, ())


@pytest.mark.incident("ZG08", came="right", twin="the other node is silent, or its rank waits as well", **ZG08)
@pytest.mark.parametrize(("reached", "sure"), [(True, Certainty.CONFIRMED), (False, Certainty.POSSIBLE)])
def test_nobody_is_seen_at_work_there(driver: StubDriver, built: StubDriver, tmp_path: Path, reached: bool, sure: Certainty) -> None:  # noqa: F811
    theirs = copied(built, tmp_path / "b")
    with rank(0, WAITS, tmp_path) as here, rank(1, WAITS, tmp_path) as there:
        driver.show(*cards([here]))
        theirs.show(*cards([there]))
        _, d = judged(two_nodes(driver, theirs, tmp_path, reached))
    assert verdicts(d, [here])[here] == ("idle-process", sure)
    assert d.state is (State.UNHEALTHY if reached else State.CANNOT_TELL)
    assert here not in killed(d), "a part of a world is not ended from here"
    assert reached or any("node-b" in line and "unreachable" in line for line in d.unknowns)
