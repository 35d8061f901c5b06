"""A sweep over the nodes of one run reads each node's processes once, and a single run reads them whenever it looks."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver
from flows.sweep.sweeping import NodeAnswer, Sweep, check_node
from runbooks.core.fleet import Fleet, Job, Node
from runbooks.core.reading import Known, Unknown, UnknownReason
from tasks.context import Context
from tasks.gpu import processes
from tasks.gpu.observation import read_observation
from tasks.gpu.processes import ProcessReadings
from tasks.remote import probe
from tasks.shared import Shared
from tasks.transport.base import TransportError
from tests.incidents.test_group import cards
from tests.incidents.test_group_elsewhere import WAITS, rank
from tests.support.gpu_fixtures import built, driver  # noqa: F401 - fixtures
from tests.support.gpu_node import context

ALL = ("node-a", "node-b", "node-c")
NOW = datetime(2026, 3, 7, tzinfo=UTC)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the processes of each node were read."""
    count: Counter[str] = Counter()
    real = probe.run_probe

    def counted(host: Any, name: str, *args: Any, **more: Any) -> Any:
        count[host.name] += 1
        return real(host, name, *args, **more)

    monkeypatch.setattr(processes, "run_probe", counted)
    return count


@pytest.fixture
def sweep(driver: StubDriver, tmp_path: Path) -> Sweep:  # noqa: F811
    """A sweep over three nodes that one job has, a rank of it on each: the nodes are this machine under three names."""
    nodes = tuple(Node(name=n, local=True, labels=driver.labels()) for n in ALL)
    job = Job(name="train", match=f"{tmp_path}/rank-0", nodes=ALL, warm_up_s=0)
    limits = {"zombie-gpu": {"window_s": 0.3, "samples": 3, "share_s": 3600}}  # however slow this machine is
    fleet = Fleet(name="test", nodes=nodes, jobs=(job,), limits=limits)
    return Sweep(fleet=fleet, slugs=("zombie-gpu",), folder=tmp_path / "reports", run_id="r", trigger="sweep")


def swept(sweep: Sweep, at_once: int) -> list[NodeAnswer]:
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda node: check_node.fn(sweep, node), sweep.fleet.nodes))


@pytest.mark.parametrize("at_once", [1, 4])
def test_each_node_s_processes_are_read_once(
    sweep: Sweep, driver: StubDriver, reads: Counter[str], tmp_path: Path, at_once: int  # noqa: F811
) -> None:
    with rank(0, WAITS, tmp_path) as pid:
        driver.show(*cards([pid]))
        answers = swept(sweep, at_once)
    assert reads == dict.fromkeys(ALL, 1), answers
    assert [[r.runbook for r in a.results] for a in answers] == [["zombie-gpu"]] * len(ALL)
    assert not any("not read" in line or "itself failed" in line for a in answers for line in a.unread)


def test_the_next_sweep_and_a_single_run_read_anew(sweep: Sweep, reads: Counter[str]) -> None:
    for made in (sweep, replace(sweep, shared=Shared())):
        check_node.fn(made, made.fleet.nodes[0])
    assert reads == {"node-a": 2}
    ctx = replace(context(), limits={"window_s": 0.0})
    assert ctx.shared is None
    read_observation(ctx)
    read_observation(ctx)
    assert reads == {"node-a": 4}


def shared_context(down: list[bool], now: Callable[[], datetime] = lambda: NOW) -> Context:
    """A context of a sweep, of a node that cannot be reached while `down` is [True]."""
    ctx = context()

    def open_host(node: Node) -> Any:
        if down[0]:
            raise TransportError(UnknownReason.UNREACHABLE, "no route to host", "ssh node-a")
        return ctx.open_host(node)

    return replace(ctx, open_host=open_host, shared=Shared(), now=now, limits={"share_s": 60, "window_s": 0.0})


def seen(ctx: Context, own: bool) -> ProcessReadings:
    return read_observation(ctx, own).window.look


def test_a_look_counts_only_so_long(reads: Counter[str]) -> None:
    at = [NOW]
    ctx = shared_context([False], lambda: at[0])
    for seconds, wanted in ((0, 1), (60, 1), (61, 2), (90, 2), (0, 3)):  # the last: the clock was set back
        at[0] = NOW + timedelta(seconds=seconds)
        assert seen(ctx, own=seconds % 2 == 0)
        assert reads["node-a"] == wanted, seconds


def test_a_node_that_did_not_answer_is_asked_again_where_it_is_judged_itself(reads: Counter[str]) -> None:
    down = [True]
    ctx = shared_context(down)
    blind = seen(ctx, own=False)
    assert isinstance(blind.processes, Unknown)
    down[0] = False
    assert seen(ctx, own=False) is blind, "one that is down is not asked by each of its mates"
    mine = seen(ctx, own=True)
    assert isinstance(mine.processes, Known)
    assert seen(ctx, own=False) is mine
    assert reads["node-a"] == 1


def test_an_error_of_the_connection_is_shared_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fails(ctx: Context, _jobs: Any) -> None:
        asked.append(ctx.target)
        raise TransportError(UnknownReason.UNREACHABLE, "no route to host", "ssh node-a")

    monkeypatch.setattr("tasks.gpu.observation.read_window", fails)
    ctx = shared_context([False])
    for own, wanted in ((False, 1), (False, 1), (True, 2)):
        with pytest.raises(TransportError, match="no route"):
            read_observation(ctx, own)
        assert len(asked) == wanted


def test_who_comes_while_it_is_read_waits_for_that_answer() -> None:
    shared, begun = Shared(), Barrier(2, timeout=60)
    read: list[int] = []

    def slow() -> int:
        read.append(begun.wait())
        return 7

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(shared.get, "a", lambda: NOW, 60.0, slow, bool)
        begun.wait()
        rest = [pool.submit(shared.get, "a", lambda: NOW, 60.0, slow, bool) for _ in range(7)]
        assert {f.result(60) for f in (first, *rest)} == {7}
    assert len(read) == 1
