"""One act at a time on an owner, held on the machine itself: here and over a real sshd, whatever becomes of the engine."""

import ast
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from flows.engine.action_run import Session, _do
from flows.engine.actions import ACTIONS, Action
from flows.engine.lock_key import lock_key_of
from flows.engine.running_on import may_run_on
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Step
from tasks.context import ActionRefused, ActionResult, Context, RunningAction
from tasks.remote import changing
from tasks.remote.changing import ask_over, change, command
from tasks.remote.probes import node_lock
from tasks.remote.program import program
from tasks.transport.base import Host, TransportError
from tasks.transport.local import LocalHost
from tasks.transport.ssh import SshHost
from tests.support.arguments import sample
from tests.support.engine_rig import kill_and_wait
from tests.support.waiting import until

REPO = Path(__file__).parents[3]
SLEEPER = """
import json, sys, time
ask = json.loads(sys.argv[1])
with open(ask["mark"], "a") as f:
    f.write("begin %s\\n" % ask["name"])
time.sleep(ask["s"])
with open(ask["mark"], "a") as f:
    f.write("end %s\\n" % ask["name"])
print(json.dumps({"sys": len(sys.argv)}))
"""
ENGINE = """
import sys
from pathlib import Path
from runbooks.core.fleet import Node
from tests.tasks.transport.test_node_lock import sleep_there
from tasks.transport.open import HostPool
sleep_there(HostPool()(Node.model_validate_json(sys.argv[1])), sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
"""


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lock files of this test alone."""
    monkeypatch.setenv("GPU_RUNBOOKS_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks" / str(os.geteuid())


def acting(host: Host, run: str, owner: str = "node-1") -> Context:
    """A context that an act was lent."""
    fleet = Fleet(nodes=(Node(name="n", local=True),))
    return Context(fleet=fleet, target="n", open_host=lambda _: host, acting=RunningAction(run=run, owner=owner))


def sleep_there(host: Host, run: str, mark: Path, s: float, timeout_s: float = 30) -> dict[str, object]:
    """A change that takes that long."""
    return change(
        acting(host, run), host, "sleeper", {"mark": str(mark), "name": run, "s": s}, timeout_s, text=SLEEPER
    )


@pytest.fixture(params=["here", "over ssh"])
def node(request: pytest.FixtureRequest) -> Node:
    if request.param == "here":
        return Node(name="n", local=True)
    return Node.model_validate(request.getfixturevalue("shared_sshd").node().model_dump())


@pytest.fixture
def either(node: Node, request: pytest.FixtureRequest) -> Host:
    return LocalHost("n") if node.local else request.getfixturevalue("host")


def engine(node: Node, run: str, mark: Path, s: float, timeout_s: float = 30) -> "subprocess.Popen[bytes]":
    """An engine that is at work on the node, as a process of its own."""
    argv = [sys.executable, "-c", ENGINE, node.model_dump_json(), run, str(mark), str(s), str(timeout_s)]
    process = subprocess.Popen(argv, cwd=REPO)
    until(lambda: mark.exists(), 30)
    return process


def test_a_command_has_no_more_time_than_its_step_holds_the_lock(either: Host, tmp_path: Path) -> None:
    """Its own time-out is longer: it is ended all the same, and what would come later is not sent at all."""
    mark, context = tmp_path / "mark", acting(either, "act-1")
    ask = {"mark": str(mark), "name": "act-1", "s": 60}

    def with_left(seconds: float) -> Context:
        lent = RunningAction(run="act-1", owner="node-1", ends=time.monotonic() + seconds)
        return replace(context, acting=lent)

    with pytest.raises(TransportError, match="no answer within"):
        change(with_left(4), either, "sleeper", ask, 60, text=SLEEPER)
    until(lambda: ask_over(either, "node-1", "act-1")[0] is False, 30)
    assert mark.read_text().splitlines() == ["begin act-1"]
    with pytest.raises(TransportError, match="not sent") as caught:
        change(with_left(-1), either, "sleeper", ask, 60, text=SLEEPER)
    assert not may_run_on(caught.value)
    assert mark.read_text().splitlines() == ["begin act-1"]


def test_the_engine_lends_each_step_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[float] = []

    def act(_step: Step, context: Context) -> ActionResult:
        assert context.acting is not None
        lent.append(context.acting.ends)
        return ActionResult(said=("done",))

    monkeypatch.setitem(ACTIONS, "restart-job", Action(act, within_s=7))
    step = Step(kind="restart-job", owner="n", args=sample("restart-job"), commands=(), effect="")
    context = acting(LocalHost("n"), "act-1")
    session = Session(cast(Any, None), context, cast(Any, None), "run", 1, lambda _: True, lambda: None)
    assert _do(session, step, 123.5) == ("done", "done", "done")
    assert lent == [123.5]


def test_the_engine_is_killed_and_its_command_goes_on(node: Node, either: Host, tmp_path: Path) -> None:
    """The second run is refused until the first one's command has ended there; then it goes on. Nothing overlapped."""
    mark = tmp_path / "mark"
    kill_and_wait(engine(node, "act-1", mark, 4).pid)
    with pytest.raises(ActionRefused, match="another action of run act-1 is still working here") as caught:
        sleep_there(either, "act-2", mark, 0)
    assert "pid " in str(caught.value)
    held, said = ask_over(either, "node-1", "act-1")
    assert held, said
    assert "act-1" in said
    assert ask_over(either, "node-2", "act-1") == (False, "")  # another owner of that machine is nobody's
    until(lambda: ask_over(either, "node-1", "act-1")[0] is False, 30)
    sleep_there(either, "act-2", mark, 0)
    assert mark.read_text().split("\n") == ["begin act-1", "end act-1", "begin act-2", "end act-2", ""]


def test_a_command_that_comes_after_its_run_was_declared_over_does_nothing(either: Host, tmp_path: Path) -> None:
    """It was on its way while the node was asked: without that, "nothing works here" would be true for a moment only."""
    assert ask_over(either, "late", "act-1") == (False, "")
    for run, may in (("act-1", False), ("act-2", True), ("act-1", False)):
        context = acting(either, run, "late")
        if may:
            assert command(context, either, ("echo", "x"), 20).out == "x\n"
        else:
            with pytest.raises(ActionRefused, match="declared over"):
                command(context, either, ("touch", str(tmp_path / "touched")), 20)
    assert not (tmp_path / "touched").exists()


def test_two_names_of_a_machine_have_one_lock_file(node: Node, either: Host, tmp_path: Path) -> None:
    """Whatever two fleet files call it, and whoever of them asks whether the other's command still works there."""
    hosts = {name: node.model_copy(update={"name": name}) for name in ("a", "b")}
    contexts = {n: Context(fleet=Fleet(nodes=(hosts[n],)), target=n, open_host=lambda _: either) for n in hosts}
    places = {n: lock_key_of(n, contexts[n]) for n in hosts}

    def acting_as(name: str, run: str) -> Context:
        return replace(contexts[name], acting=RunningAction(run=run, owner=name, lock=places[name].lock))

    with ThreadPoolExecutor(1) as pool:
        mark = tmp_path / "began"
        first = pool.submit(command, acting_as("a", "act-1"), either, ("sh", "-c", f"touch {mark}; sleep 3"), 20)
        until(mark.exists, 20)
        with pytest.raises(ActionRefused, match="another action of run act-1 is still working here"):
            command(acting_as("b", "act-2"), either, ("touch", str(tmp_path / "touched")), 20)
        assert ask_over(either, places["b"].lock, "act-1")[0] is True
        assert first.result().exit == 0
    assert not (tmp_path / "touched").exists()


def test_commands_of_one_run_work_side_by_side(either: Host, tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=6) as pool:
        assert len(list(pool.map(lambda n: sleep_there(either, "act-1", tmp_path / str(n), 0.5), range(6)))) == 6


def test_of_many_runs_that_begin_at_once_one_works_at_a_time(tmp_path: Path) -> None:
    """Each command counts who is at work beside it; whoever does not get the lock is refused and changes nothing."""
    host = LocalHost("n")

    def one(n: int) -> str:
        mine = tmp_path / f"busy-{n}"
        script = f"mkdir {mine}; ls -d {tmp_path}/busy-* | wc -l; sleep 0.05; rmdir {mine}"
        try:
            return command(acting(host, f"act-{n}"), host, ("sh", "-c", script), 30).out.strip()
        except ActionRefused as e:
            return "refused" if "still working here" in str(e) else str(e)

    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(one, range(32)))
    assert set(found) <= {"1", "refused"}, found
    assert found.count("1") >= 4
    assert not list(tmp_path.glob("busy-*"))


def test_what_a_command_leaves_running_does_not_hold_the_lock(either: Host, tmp_path: Path) -> None:
    """A started service lives for months: the act that started it is over when its command is."""
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; echo said; exit 3"
    try:
        done = command(acting(either, "act-1"), either, ("sh", "-c", script), 20)
        assert (done.exit, done.out) == (3, "said\n")
        assert Path(f"/proc/{pid_file.read_text().strip()}").exists()
        assert ask_over(either, "node-1", "act-1") == (False, "")
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_here_a_command_ends_in_time_though_nobody_is_left_to_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over SSH the node's own time limit does that; a local command had none once its engine was killed."""
    mark = tmp_path / "mark"
    shorter = "from tasks.remote import changing\nchanging.GRACE_S = 0.0\n"
    monkeypatch.setitem(globals(), "ENGINE", shorter + ENGINE)
    kill_and_wait(engine(Node(name="n", local=True), "act-1", mark, 60, 2).pid)
    assert ask_over(LocalHost("n"), "node-1", "act-1")[0]
    until(lambda: ask_over(LocalHost("n"), "node-1", "act-1")[0] is False, 10)
    assert mark.read_text() == "begin act-1\n"


@pytest.mark.parametrize("trap", ["link", "second name", "folder of all", "folder is a link"])
def test_nobody_else_can_lend_the_lock(trap: str, tmp_path: Path, locks: Path) -> None:
    """What lies there already is looked at: a link, a file with another name, an open folder."""
    folder, other = locks, tmp_path / "other"
    folder.parent.mkdir()
    other.write_text("precious")
    if trap == "folder is a link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    if trap == "link":
        (folder / "node-1.lock").symlink_to(other)
    if trap == "second name":
        os.link(other, folder / "node-1.lock")
    host = LocalHost("n")
    if trap == "folder of all":
        command(acting(host, "act-1"), host, ("true",), 20)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "node-1.lock").stat().st_mode & 0o777 == 0o600
        return
    with pytest.raises(ActionRefused):
        command(acting(host, "act-1"), host, ("true",), 20)
    assert other.read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())
    assert ask_over(host, "node-1", "act-1")[0] is None


def test_a_file_that_was_cut_off_holds_nobody(locks: Path) -> None:
    host = LocalHost("n")
    command(acting(host, "act-1"), host, ("true",), 20)
    file = locks / "node-1.lock"
    said = json.loads(file.read_text())
    assert (said["run"], said["probe"]) == ("act-1", "run_command")
    assert 20 <= said["until"] - said["since"] <= 40
    file.write_text('{"run": "act-')
    command(acting(host, "act-2"), host, ("true",), 20)


def test_the_usual_place_is_this_users_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's folder under /run; another user's below its home, whatever the environment of a login or a service says."""
    monkeypatch.delenv("GPU_RUNBOOKS_LOCKS")
    host, owner = LocalHost("n"), f"test-{uuid4().hex}"
    place = Path(node_lock.folders("")[0])
    assert ask_over(host, owner, "act-1") == (False, "")
    made = place / f"{owner}.lock"
    try:
        assert (made.stat().st_mode & 0o777, made.stat().st_uid) == (0o600, os.geteuid())
        assert (place.stat().st_mode & 0o777, place.stat().st_uid) == (0o700, os.geteuid())
    finally:
        made.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert node_lock.folders("")[0] == "/run/gpu-runbooks"
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("daemon").pw_uid)
    monkeypatch.setenv("HOME", "/elsewhere")
    assert node_lock.folders("")[0] == f"{pwd.getpwnam('daemon').pw_dir}/.gpu-runbooks/lock"


def test_services_of_one_user_share_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: SshHost) -> None:
    """A worker and a reaper of systemd have each a /tmp of their own and no home: without root it is the state folder."""
    monkeypatch.delenv("GPU_RUNBOOKS_LOCKS")
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert changing._place(LocalHost("n"), "n")["folder"] == str(tmp_path / "locks")
    assert changing._place(host, "n")["folder"] == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert changing._place(LocalHost("n"), "n")["folder"] == ""


READS = {  # what an action may ask a machine without holding its lock: it changes nothing
    "container/act_restart.py:_nobody_at_work", "container/act_restart.py:_run", "container/act_engine.py:start_engine",
    "gpu/act_leader.py:_alive", "ray/act.py:restart_raylet",
    "rendezvous/act.py:start_etcd", "remote/changing.py:change", "remote/changing.py:ask_over",
}  # fmt: skip


def test_every_change_goes_through_the_one_place() -> None:
    """No action runs a command or a probe on a machine in another way than `change` and `command`."""
    found = set()
    for path in (*REPO.glob("tasks/*/act*.py"), REPO / "tasks/remote/changing.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for function in [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]:
            for call in [c for c in ast.walk(function) if isinstance(c, ast.Call)]:
                name = ast.unparse(call.func)
                if name in ("run_probe", "run_program") or (name.endswith(".run") and "host" in name):
                    found.add(f"{path.relative_to(REPO / 'tasks')}:{function.name}")
    assert found == READS
    assert "def main" in program("lock_state")
