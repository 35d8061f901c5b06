"""A key that a node or its jump host refused is not offered again in the same run, whoever asks: servers punish it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.sweep.sweeping import Sweep, check_node
from runbooks.core.fleet import Fleet, KeySource, Node
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis, State
from runbooks.ssh.diagnose import Limits, diagnose
from runbooks.ssh.evidence import Evidence, Wire
from tasks.context import Context
from tasks.remote.node_basics import read_basics
from tasks.ssh.attempts import memory_of
from tasks.ssh.read import gather_ssh_auth_failure
from tasks.transport.open import HostPool
from tests.support.sshd import Sshd, make_key
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_real_sshd import LIMITS

REFUSED = "Failed publickey"


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@contextmanager
def swept(node: Node) -> Iterator[Context]:
    """The context of the look at the log-in, after the first look of a sweep at that node, which failed."""
    with HostPool() as pool:
        assert read_basics(pool(node)).shut
        yield Context(fleet=Fleet(nodes=(node,)), target=node.name, open_host=pool, limits=LIMITS)


def judged(context: Context) -> tuple[Evidence, Diagnosis, Wire]:
    found = gather_ssh_auth_failure(context)
    assert isinstance(found.wire, Known)
    return found, diagnose(found, Limits.model_validate(LIMITS)), found.wire.value


def alone(node: Node) -> Diagnosis:
    """What a run of its own says."""
    with HostPool() as pool:
        return judged(Context(fleet=Fleet(nodes=(node,)), target=node.name, open_host=pool, limits=LIMITS))[1]


def same(one: Diagnosis, other: Diagnosis) -> bool:
    return one.state is other.state and [(c.slug, c.certainty) for c in one.causes] == [(c.slug, c.certainty) for c in other.causes]


def test_a_refused_key_is_offered_once_and_the_cause_is_the_same(tmp_path: Path) -> None:
    with Sshd(tmp_path, "far") as sshd:
        node = sshd.node(key={"file": str(make_key(tmp_path / "another"))})
        with swept(node) as context:
            _, d, wire = judged(context)
        assert sshd.read_log().count(REFUSED) == 1
        assert wire.remembered
        assert same(d, alone(node))
        assert d.causes
        assert sshd.read_log().count(REFUSED) == 2  # another run asks for itself


@pytest.mark.parametrize("way", [True, False])
def test_a_node_with_a_second_way_in_is_asked_once_in_a_sweep_too(folder: Path, way: bool) -> None:
    """And what sshd itself says of that attempt is read, not what it said before."""
    room = Room(folder)
    with room:
        fleet = room.fleet(folder, way)
        node = fleet.node("room")
        with HostPool() as pool:
            assert not read_basics(pool(node)).shut
        room.keys.parent.chmod(0o777)
        room.log.write_text("User op from 127.0.0.1 not allowed because shell /bin/sh does not exist\n")
        answer = check_node.fn(Sweep(fleet, ("ssh-auth-failure",), folder / "reports", "run", "sweep"), node)
        (found,) = answer.results
        assert room.read_log().count(REFUSED) == 1
        page = Path(found.report).read_text()
    assert found.shut
    assert ("server-strict-modes" in found.causes, "bad ownership or modes" in page) == (way, way), (found, page)
    assert "shell /bin/sh does not exist" not in page


def test_after_something_was_changed_it_is_offered_again(tmp_path: Path) -> None:
    with Sshd(tmp_path, "far") as sshd:
        other = make_key(tmp_path / "another")
        node = sshd.node(key={"file": str(other)})
        with swept(node) as context:
            judged(context)
            sshd.authorize(other)
            memory_of(context).changed()
            _, d, wire = judged(context)
            assert not read_basics(context.open_host(node)).shut
        assert (d.state, wire.remembered) == (State.HEALTHY, False)
        assert sshd.read_log().count("Accepted publickey") == 1


def test_a_jump_host_that_refuses_is_asked_once(tmp_path: Path) -> None:
    with Sshd(tmp_path, "far") as sshd, Sshd(tmp_path, "jump") as jump:
        other = {"file": str(make_key(tmp_path / "another"))}
        way = {"host": jump.address, "port": jump.port, "key": other, "known_hosts": str(jump.known_hosts), "user": jump.node().user}
        node = sshd.node(jump=way)
        with swept(node) as context:
            _, d, _ = judged(context)
            assert context.open_host(node).notes == ()  # nothing was reached through it
        assert jump.read_log().count(REFUSED) == 1
        assert "jump-host-fails" in [c.slug for c in d.causes]
        assert same(d, alone(node))


def test_each_key_of_an_agent_is_offered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("SSH_AUTH_SOCK", started.split("SSH_AUTH_SOCK=")[1].split(";")[0])
    try:
        for i in range(2):
            subprocess.run(["ssh-add", "-q", str(make_key(tmp_path / f"agent{i}"))], check=True)
        with Sshd(tmp_path, "far") as sshd:
            node = sshd.node(key=KeySource(agent=True))
            with swept(node) as context:
                _, d, _ = judged(context)
            assert sshd.read_log().count(REFUSED) == 2
            assert same(d, alone(node))
    finally:
        os.kill(int(started.split("SSH_AGENT_PID=")[1].split(";")[0]), signal.SIGTERM)


def test_what_was_no_refusal_is_asked_again(tmp_path: Path) -> None:
    """A node that did not answer may answer now; then the connection is handed over, and nobody logs in again."""
    sshd = Sshd(tmp_path, "far")
    node = sshd.node()
    with swept(node) as context, sshd:
        _, d, _ = judged(context)
        assert d.state is State.HEALTHY
        assert not read_basics(context.open_host(node)).shut
        assert sshd.read_log().count("Accepted publickey") == 1
