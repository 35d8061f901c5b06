"""Real torchrun with the old etcd backend and with c10d; a probe run; random schedules with real agents."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.ports import free_port
from runbooks.core.reading import Known
from tests.support.etcd import Etcd
from tests.support.rendezvous import act, context_of, look, place, slugs
from tests.support.torchrun import Agents, pair
from tests.support.waiting import until

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.timeout(1200)]  # one real torchrun test at a time


def test_the_old_backend_lives_and_is_killed(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    end = f"127.0.0.1:{etcd.port}"
    context = context_of(place(etcd.url), tmp_path / "reports", "t/leg1")
    pair(agents, end, "leg1", 10_000, "a", backend="etcd")
    _, living = look(context)
    assert living.plans == ()
    assert [c.slug for c in living.causes] == ["live-run"]
    for agent in agents.started:
        agents.kill(agent)
    _, killed = look(context)
    assert slugs(killed) == ["all-dead"]
    assert killed.plans == ()


def test_the_old_backend_is_finished_and_cleared(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    """And started again under the same name."""
    end = f"127.0.0.1:{etcd.port}"
    context = context_of(place(etcd.url), tmp_path / "reports", "t/leg1")
    pair(agents, end, "leg1", 1, "b", backend="etcd")
    assert [a.wait(60) for a in agents.started] == [0, 0]
    refused = agents.start("etcd", end, "leg1", name="refused")
    assert refused.wait(60) != 0
    assert "RendezvousClosedError" in agents.log("refused")
    _, closed = look(context)
    assert [s for s in slugs(closed) if s != "etcd-slow-disk"] == ["closed-round"]  # the disk is shared with other tests
    act(closed.plans[0], context)
    assert not [k for k in etcd.leaves() if "run_leg1" in k]
    pair(agents, end, "leg1", 1, "c", backend="etcd")


def test_c10d(agents: Agents, tmp_path: Path) -> None:
    """The store's host is killed: the other node is named as a victim, nothing is planned."""
    end = f"127.0.0.1:{free_port()}"
    where = place("http://127.0.0.1:1", backends=("c10d",), endpoints=(end,))
    context = context_of(where, tmp_path, "t")
    pair(agents, end, "c1", 10_000, "a", backend="c10d")
    before, living = look(context)
    assert slugs(living) == []
    assert living.plans == ()
    assert all(a.poll() is None for a in agents.started)
    port = int(end.rsplit(":", 1)[1])
    facts = before.nodes[0].facts
    assert isinstance(facts, Known)
    (holder,) = [p.listeners[0] for p in facts.value.ports if p.port == port]
    host = next(a for a in agents.started if a.pid == holder)
    agents.kill(host, workers=False)
    _, d = look(context)
    assert "store-host-died" in slugs(d), d
    assert d.plans == ()


@pytest.mark.soak
def test_a_probe_run_proves_the_id_and_leaves_nothing(etcd: Etcd, agents: Agents, tmp_path: Path) -> None:
    end = f"127.0.0.1:{etcd.port}"
    pair(agents, end, "job1", 1, "a")
    assert [a.wait(60) for a in agents.started] == [0, 0]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "--nproc-per-node=2",
        "--rdzv-backend=etcd-v2",
    ]
    command += [f"--rdzv-endpoint={end}", "--rdzv-id={run}", "--rdzv-conf=protocol=http", str(agents.script)]
    probe = {"command": tuple(command), "nodes": ("local",), "expect": r"world 2 rank \d", "timeout_s": 120}
    context = context_of(place(etcd.url, probe=probe), tmp_path / "reports", "t/job1")
    _, d = look(context)
    assert [s.kind for s in d.plans[0].steps] == ["delete-run-keys", "probe-rendezvous"]
    said = act(d.plans[0], context)
    assert "a world was formed" in said[1].said[0]
    assert not [k for k in etcd.leaves() if "torch" in k]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 6))])
@pytest.mark.soak
def test_random_schedules(etcd: Etcd, agents: Agents, tmp_path: Path, seed: int) -> None:
    """Agents of two ids start, are killed in every way and finish; after each event whoever lives, lives on."""
    dice = random.Random(seed)
    end = f"127.0.0.1:{etcd.port}"
    conf = ",keep_alive_interval=1"
    pair(agents, end, "live", 100_000, "live", conf)
    for turn in range(3):
        first = len(agents.started)
        for i in range(dice.choice([1, 2, 2])):
            agents.start("etcd-v2", end, "job", steps=dice.choice([1, 100_000]), conf=conf, name=f"{turn}-{i}")
        mine = agents.started[first:]
        until(_settled(agents, f"{turn}-0", len(mine)), 90)
        for agent in mine:
            if dice.random() < 0.7 and agent.poll() is None:
                agents.kill(agent, workers=dice.random() < 0.6)
        context = context_of(place(etcd.url), tmp_path / "reports", "t/job")
        before = set(agents.running())
        _, d = look(context)
        dead = not [
            p for p in before if b"--rdzv-id=job\0" in _cmdline(p) or b"TORCHELASTIC_RUN_ID=job\0" in _environ(p)
        ]
        for plan in d.plans:
            assert dead, f"seed {seed}, turn {turn}: {d.model_dump_json(indent=1)}"
            act(plan, context)
        assert all(a.poll() is None for a in agents.started[:2]), "the living run died"
        assert {p for p in before if _cmdline(p)} <= set(agents.running()) | {p for p in before if not _cmdline(p)}
        for pid in agents.running():
            if b"TORCHELASTIC_RUN_ID=job\0" in _environ(pid) or b"--rdzv-id=job\0" in _cmdline(pid):
                agents.end(pid)
        _, d = look(context)
        for plan in d.plans:
            act(plan, context)
    pair(agents, end, "job", 1, "last", conf)


def _settled(agents: Agents, log: str, count: int) -> Callable[[], bool]:
    """Training, failed, or alone (then it waits for ever)."""
    return lambda: count == 1 or "step" in agents.log(log) or "Error" in agents.log(log)


def _cmdline(pid: int) -> bytes:
    return _proc(pid, "cmdline")


def _environ(pid: int) -> bytes:
    return _proc(pid, "environ")


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
