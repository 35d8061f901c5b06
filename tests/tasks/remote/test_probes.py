"""Probes as programs: standard library of Python 3.6, one text, never stuck behind a process that is."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tasks.remote import probe
from tasks.remote.probe import run_probe
from tasks.remote.program import OURS as OUR_ROOMS
from tasks.remote.program import parts, program
from tests.support.gpu_node import context, job, look, state, tagged, wait_state
from tests.support.sent import Sent

OURS = "processes presence gpus kernel progress container_gpus terminate gone start_job reset_gpu quarantine"
OURS += " node_lock lock_state run_command"


@pytest.mark.parametrize("name", OURS.split())
def test_probes_are_one_program_of_the_standard_library(name: str) -> None:
    import ast

    sent = parts(name)
    assert ast.parse(program(name), feature_version=(3, 6))
    for module, text in sent:
        tree = ast.parse(text, feature_version=(3, 6))
        found = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        found |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        ours = {f for f in found if f.startswith(OUR_ROOMS)}
        assert {f.split(".")[0] for f in found - ours} <= set(sys.stdlib_module_names)
        before = [m for m, _ in sent]
        assert ours <= set(before[: before.index(module)]), "what a module needs stands before it"
    assert 'if __name__ == "__main__"' in program(name)


NEWER = {  # keyword or attribute -> the Python that brought it
    "capture_output": "3.7", "text": "3.7", "pidfd_open": "3.9", "pidfd_send_signal": "3.9", "missing_ok": "3.8",
    "removeprefix": "3.9", "removesuffix": "3.9", "fromisoformat": "3.7", "dirs_exist_ok": "3.8", "prod": "3.8", "isqrt": "3.8",
}  # fmt: skip
SENT = sorted(
    p.stem for p in Path(probe.__file__).parents[1].glob("*/probes/*.py")
    if "sys.argv[1]" in p.read_text() and not p.stem.startswith("ckpt")  # those say themselves which Python they need
)  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_no_probe_needs_a_newer_python(name: str) -> None:
    """Nodes may have Python 3.6: its grammar, and none of what later ones brought."""
    import ast

    assert ast.parse(program(name), feature_version=(3, 6))
    trees = [ast.parse(text, feature_version=(3, 6)) for _, text in parts(name)]
    words = {str(k.arg) for t in trees for n in ast.walk(t) if isinstance(n, ast.Call) for k in n.keywords}
    words |= {n.attr for t in trees for n in ast.walk(t) if isinstance(n, ast.Attribute)}
    assert sorted(words & set(NEWER)) == []


def test_the_stack_of_a_stuck_process_cannot_hang_the_probe() -> None:
    """A read that the kernel does not answer is left behind in a child: shown with a FIFO that nobody writes."""
    fifo = Path("/tmp") / f"probe-fifo-{os.getpid()}"
    os.mkfifo(fifo)
    space = Sent("proc")
    try:
        assert space["guarded"](str(fifo), 0.2) == ""
        assert space["guarded"]("/proc/self/comm", 5).strip() != ""
    finally:
        fifo.unlink()


def test_uninterruptible_is_read_where_the_kernel_gives_one() -> None:
    """D can be had with vfork: the parent waits in D until its child execs or exits."""
    script = (
        "import ctypes, os, sys; libc = ctypes.CDLL(None)\n"
        "print('ready', flush=True)\n"
        "libc.vfork.restype = ctypes.c_int\n"
        "pid = libc.vfork()\n"
        "libc.sleep(30) if pid == 0 else None\n"
        "os._exit(0)\n"
    )
    p = subprocess.Popen([sys.executable, "-c", script, f"train_selfplay.py --tag {tagged('ddd')}"], stdout=subprocess.PIPE,
                         text=True, start_new_session=True)  # fmt: skip
    try:
        wait_state(p.pid, "D")
        found = look(p.pid, jobs=(job("ddd"),))[p.pid]
        assert found.state == "D"
        assert found.threads_d == 1
        assert found.job == "selfplay"  # its command line was read all the same
        assert found.wchan != "0"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait(40)


def test_many_processes_are_capped_not_half_read() -> None:
    got = run_probe(
        context().host, "processes", {"window_s": 0, "looks": 1, "pids": [os.getpid()], "jobs": [], "cap": 1}
    )
    assert len(got["processes"]) == 1
    assert got["left_out"] >= 1
    assert state(os.getpid()) != ""
