"""Real Linux processes, read over a window: stopped, defunct, orphan, idle, at work, hostile."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runbooks.core.reading import Known, Unknown, UnknownReason
from tasks.context import Context
from tasks.gpu.probes.processes import RUN
from tasks.gpu.processes import read_processes
from tests.support.gpu_node import ALIVE, BOOT, context, job, look, running, wait_state
from tests.support.need import need_program

PROBES = Path(__file__).parents[3] / "tasks/gpu/probes"


def test_a_stopped_process() -> None:
    with running("sleep", stopped=True) as p:
        found = look(p.pid)[p.pid]
    assert found.state == "T"
    assert set(found.states) == {"T"}
    assert len(found.states) == 6
    assert found.cpu_window_s == 0
    assert found.io_window_bytes == 0
    assert (found.ppid, found.sid, found.uid, found.user) == (os.getpid(), p.pid, os.getuid(), "root")
    assert found.start_ticks > 0
    assert found.age_s < 30


def test_a_defunct_child_beside_a_live_one() -> None:
    with running("family", tag="fam") as p:
        found = look(p.pid, jobs=(job("fam"),))
        parent = found[p.pid]
        (dead,) = set(parent.children) - set(parent.live_children)
        assert len(parent.live_children) == 1
        assert found[dead].state == "Z"
        assert found[dead].command.startswith("[")
        assert found[dead].parent_state in ALIVE
        assert "train_selfplay.py family" in found[dead].parent_command
        assert found[parent.live_children[0]].job == "selfplay"


def test_an_orphan_belongs_to_init(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with running("orphan", str(note), tag="orph") as p:
        p.wait(10)
        pid = int(note.read_text())
        try:
            found = look(pid, jobs=(job("orph"),))[pid]
            assert found.ppid != p.pid
            assert found.ppid == 1 or "reaper" in found.parent_command or found.parent_command
            assert found.job == "selfplay"
        finally:
            os.kill(pid, signal.SIGKILL)


def test_idle_is_not_busy_and_busy_is_not_idle() -> None:
    with running("sleep") as idle, running("burn") as busy:
        found = look(idle.pid, busy.pid, window_s=1)
    assert (found[idle.pid].cpu_window_s or 0) < 0.05
    assert (found[busy.pid].cpu_window_s or 0) > 0.2
    assert (found[busy.pid].cpu_s or 0) >= (found[busy.pid].cpu_window_s or 0)


def test_the_work_of_children_counts_for_the_parent() -> None:
    with running("worker", tag="wrk") as p:
        found = look(p.pid, jobs=(job("wrk"),), window_s=1)[p.pid]
    assert (found.cpu_window_s or 0) < 0.05
    assert found.children_cpu_window_s > 0.2


def test_a_checkpoint_that_is_being_written(tmp_path: Path) -> None:
    target = tmp_path / "step_100.pt"
    with running("checkpoint", str(target)) as p, running("sleep") as other:
        found = look(p.pid, other.pid)
    assert found[p.pid].writing == (str(target),)
    assert (found[p.pid].io_window_bytes or 0) > 4096
    assert found[other.pid].writing == ()


def test_a_process_of_another_pid_namespace() -> None:
    need_program("unshare", "util-linux")
    argv = ["unshare", "-p", "--fork", sys.executable, "-c", "import time; time.sleep(60)", "--ns-job"]
    p = subprocess.Popen(argv, start_new_session=True)
    try:
        wait_state(p.pid, "S")
        found = look(p.pid, jobs=(job("x", match="import time; time.sleep.60. --ns-job"),))
        inner = next(q for q in found.values() if q.ppid == p.pid)
        assert len(inner.ns_pids) == 2
        assert inner.ns_pids[1] == 1
        assert inner.pid_namespace != found[p.pid].pid_namespace
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def test_a_pid_that_does_not_exist_is_left_out() -> None:
    assert look(4_190_000) == {}


def test_listening_ports_and_tcp_bytes() -> None:
    need_program("ss", "iproute2")
    script = (
        "import socket,sys,time; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True)\n"
        "c,_=s.accept()\n"
        "while True: c.sendall(b'x'*1000); time.sleep(.02)"
    )
    p = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout is not None
        port = int(p.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as c, running("sleep") as idle:
            c.setblocking(False)
            found = look(p.pid, idle.pid)
        assert found[p.pid].listening == (port,)
        assert (found[p.pid].sockets_moved_bytes or 0) > 1000
        assert found[idle.pid].sockets_moved_bytes == 0
    finally:
        p.kill()
        p.wait()


def test_jobs_are_matched_but_not_the_probe_that_carries_the_pattern() -> None:
    with running("sleep", tag="only-me") as p:
        found = look(jobs=(job("only-me"),))
    assert {q.pid for q in found.values() if q.job} == {p.pid}


@pytest.mark.parametrize(
    "name",
    [
        "a\nb 1 R",
        "x) R 1 1 1",
        "\x1b[2J\x1b[H",
        "тест 模型 🚀",
        "$(touch /tmp/pwned);`id`",
        "'\"\\",
        "--",
        "\u202egnp.exe",
    ],
)
def test_hostile_names_stay_text(name: str, tmp_path: Path) -> None:
    program = tmp_path / name.replace("/", "_")[:60]
    program.write_text(f"#!{sys.executable}\nimport time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    program.chmod(0o755)
    p = subprocess.Popen([str(program), name], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout is not None
        p.stdout.readline()
        found = look(p.pid)[p.pid]
        assert found.state in ALIVE
        assert found.ppid == os.getpid()
        assert all(c.isprintable() for c in found.command)
        assert "\n" not in found.command
    finally:
        p.kill()
        p.wait()


def test_secrets_in_command_lines_are_replaced() -> None:
    with running("secret", "--api-key", "sk-very-secret-value-1", tag="sec") as p:
        found = look(p.pid, jobs=(job("sec"),))
        text = repr(found)
    assert "sk-very-secret-value-1" not in text
    assert "<secret:api-key:" in found[p.pid].command


def test_facts_and_holders() -> None:
    got = read_processes(context(), 0, (), ())
    assert isinstance(got.facts, Known)
    assert got.facts.value.boot_id == BOOT
    assert got.facts.value.root == (os.geteuid() == 0)
    assert isinstance(got.holders, Known | Unknown)


def test_an_environment_that_names_no_run_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(RUN.match, list(os.environ)):
        monkeypatch.delenv(name)
    with running("sleep") as p:
        assert look(p.pid)[p.pid].run == {}
    monkeypatch.setenv("MASTER_ADDR", "node-a")
    monkeypatch.setenv("MASTER_PORT", "29500")
    with running("sleep") as p:
        assert look(p.pid)[p.pid].run == {"MASTER_ADDR": "node-a", "MASTER_PORT": "29500"}


def as_nobody(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Context:
    """The same node, logged in as a user without rights."""
    need_program("setpriv", "util-linux")
    host = ctx.host
    real = host.run
    drop = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    monkeypatch.setattr(host, "run", lambda argv, **kw: real((*drop, "/usr/bin/python3", *argv[1:]), **kw))
    return ctx


def test_without_rights_holders_are_unknown_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with running("burn") as p:
        got = read_processes(as_nobody(context(), monkeypatch), 0.5, (p.pid,), ())
    assert isinstance(got.holders, Unknown)
    assert got.holders.reason is UnknownReason.DENIED
    assert isinstance(got.processes, Known)
    found = next(q for q in got.processes.value if q.pid == p.pid)
    assert (found.cpu_window_s or 0) > 0.1  # stat is readable by everybody
    assert found.io_window_bytes is None  # io is not: unknown, not 0
    assert found.read_bytes is None
    assert found.pid_namespace is None
    assert found.run is None  # nor is its environment: not the same as one that names no run


def test_no_python_on_the_node_is_tool_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context()
    real = ctx.host.run
    monkeypatch.setattr(ctx.host, "run", lambda argv, **kw: real(("no-such-python", *argv[1:]), **kw))
    got = read_processes(ctx, 0, (), ())
    assert isinstance(got.processes, Unknown)
    assert got.processes.reason is UnknownReason.TOOL_MISSING


def test_garbage_instead_of_json_is_unparsable(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context()
    real = ctx.host.run
    monkeypatch.setattr(ctx.host, "run", lambda _argv, **kw: real(("echo", "Welcome to node-a!"), **kw))
    got = read_processes(ctx, 0, (), ())
    assert isinstance(got.processes, Unknown)
    assert got.processes.reason is UnknownReason.UNPARSABLE
    assert "Welcome" in got.processes.detail
