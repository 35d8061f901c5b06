"""Ending real processes: exactly the listed ones, or nothing; and the memory that they held comes back."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import H100, HeldMemory
from runbooks.core.plan import Step
from tasks.context import ActionRefused
from tasks.gpu import act_processes as processes
from tasks.gpu.act_processes import terminate_processes
from tasks.transport.base import TransportError
from tests.support.gpu_node import ALIVE, context, running, state, terminate_step, wait_state
from tests.support.sent import Sent

UUID = H100["uuid"]
ROUTES = pytest.mark.parametrize("local", [True, False], ids=["nvml", "nvidia-smi"])


def edited(step: Step, index: int = 0, **fields: Any) -> Step:
    """The step with one listed process changed."""
    listed = [dict(p) for p in step.args["processes"]]
    listed[index].update(fields)
    return step.model_copy(update={"args": {**step.args, "processes": listed}})


def refused(step: Step, *pids: int, words: str) -> None:
    """It is refused with these words, and everybody lives."""
    with pytest.raises(ActionRefused, match=words):
        terminate_processes(step, context())
    time.sleep(0.1)
    for pid in pids:
        assert state(pid) in (*ALIVE, "T"), pid


@ROUTES
def test_a_stopped_holder_is_killed_and_its_memory_comes_back(driver: StubDriver, local: bool) -> None:
    with running("sleep", stopped=True) as p, running("sleep") as other:
        gpu = holding(p.pid)
        gpu.processes.append(HeldMemory(other.pid, 1 << 30))
        driver.show(gpu)
        step = terminate_step(p.pid, freed=8710 << 20, uuids=(UUID,), grace_s=5)
        began = time.monotonic()
        said = "\n".join(terminate_processes(step, context(driver, local=local)).said)
        assert f"pid {p.pid}: ended by KILL" in said
        assert "TERM stays pending" in said
        assert "8710 MiB of GPU memory came back (8710 MiB expected)" in said
        assert "1033 MiB now" in said  # the other client keeps its own
        assert p.wait(5) == -signal.SIGKILL
        assert other.poll() is None
        assert time.monotonic() - began < 12


def test_a_polite_one_ends_by_term() -> None:
    with running("sleep") as p:
        (said,) = terminate_processes(terminate_step(p.pid), context()).said
        assert "ended by TERM" in said
        assert p.wait(5) == -signal.SIGTERM


def test_one_that_ignores_term_is_killed_after_the_grace_time() -> None:
    with running("stubborn") as p:
        began = time.monotonic()
        (said,) = terminate_processes(terminate_step(p.pid, grace_s=1), context()).said
        assert "ended by KILL" in said
        assert time.monotonic() - began >= 1
        assert p.wait(5) == -signal.SIGKILL


def test_a_whole_family() -> None:
    with running("worker") as p:
        child = int(Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[0])
        said = terminate_processes(terminate_step(p.pid, child), context()).said
        assert len(said) == 2
        wait_state(child, "-Z")


def test_a_reused_pid_is_refused() -> None:
    with running("sleep") as p:
        step = terminate_step(p.pid)
        ticks = step.args["processes"][0]["start_ticks"]
        refused(edited(step, start_ticks=ticks - 1), p.pid, words="is another process now")


def test_one_wrong_identity_saves_all_of_them() -> None:
    with running("sleep") as a, running("sleep") as b:
        step = terminate_step(a.pid, b.pid)
        refused(edited(step, 1, start_ticks=1), a.pid, b.pid, words="is another process now")


def test_another_boot_is_refused() -> None:
    with running("sleep") as p:
        refused(terminate_step(p.pid, boot_id="00000000-0000-0000-0000-000000000000"), p.pid, words="was booted since")


def test_another_user_or_program_is_refused() -> None:
    with running("sleep") as p:
        step = terminate_step(p.pid)
        refused(edited(step, uid=12345), p.pid, words="belongs to uid")
        refused(edited(step, command="python3 something else"), p.pid, words="runs another program")


def test_exec_keeps_pid_and_start_but_not_the_program() -> None:
    script = (
        "import os,time,signal\n"
        "signal.signal(signal.SIGUSR1, lambda *_: os.execvp('sleep', ['sleep', '60']))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    p = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        p.stdout.readline()
        step = terminate_step(p.pid)
        p.send_signal(signal.SIGUSR1)
        for _ in range(100):
            if b"sleep" in Path(f"/proc/{p.pid}/cmdline").read_bytes()[:6]:
                break
            time.sleep(0.05)
        refused(step, p.pid, words="runs another program now: 'sleep 60'")
    finally:
        p.kill()
        p.wait()


def test_a_redacted_command_is_compared_up_to_the_secret() -> None:
    with running("secret", "--api-key", "sk-abc-123-def-456", tag="r") as p:
        step = terminate_step(p.pid)
        assert "sk-abc" not in str(step.args)
        refused(edited(step, command="python3 other <secret:api-key:11111111>"), p.pid, words="runs another program")
        (said,) = terminate_processes(step, context()).said
        assert "ended by TERM" in said


def test_a_child_outside_the_list_is_refused() -> None:
    with running("worker") as p:
        child = int(Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[0])
        refused(terminate_step(p.pid), p.pid, child, words=f"not in the plan: pid {child}")


def test_a_member_of_the_session_on_the_same_gpu_is_refused(driver: StubDriver) -> None:
    script = (
        "import subprocess,sys,time\n"
        "q = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(q.pid, flush=True); time.sleep(60)"
    )
    p = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        child = int(p.stdout.readline())
        gpu = holding(p.pid)
        gpu.processes.append(HeldMemory(child, 1 << 30))
        driver.show(gpu)
        step = terminate_step(child, uuids=(UUID,), freed=1 << 30, sid=p.pid)
        with pytest.raises(ActionRefused, match=f"pid {p.pid} .* is on these GPUs"):
            terminate_processes(step, context(driver))
        assert state(child) in ALIVE
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def test_one_that_left_its_session_is_refused() -> None:
    with running("sleep") as p:
        refused(terminate_step(p.pid, sid=1, cgroup=""), p.pid, words="left session 1")


def test_gone_ones_are_said_and_no_others_are_looked_for() -> None:
    with running("sleep") as gone:
        step = terminate_step(gone.pid)
        gone.kill()
        gone.wait()
    (said,) = terminate_processes(step, context()).said
    assert said == f"pid {gone.pid}: gone before"


def test_a_defunct_one_is_said_to_be_its_parents_matter() -> None:
    with running("sleep") as p:
        step = terminate_step(p.pid)
        p.kill()
        wait_state(p.pid, "Z")
        (said,) = terminate_processes(step, context()).said
    assert f"its parent {os.getpid()} has not reaped it" in said


def test_an_empty_list_never_means_all() -> None:
    with running("sleep") as p:
        refused(terminate_step(p.pid, processes=[]), p.pid, words="never means all")


def test_what_stands_above_the_check_itself_is_refused() -> None:
    refused(terminate_step(os.getpid()), words="above this check")


def test_memory_that_stays_is_said(driver: StubDriver) -> None:
    impatient = replace(context(driver), limits={"vanish_s": 1.0})
    with running("sleep") as p, running("sleep") as other:
        gpu = holding(p.pid, mib=1000)
        gpu.processes.append(HeldMemory(other.pid, 8 << 30, "C", 0, "hidden"))
        driver.show(gpu)
        with pytest.raises(TransportError, match="only 1000 MiB of 9192 MiB came back"):  # nothing may build on it
            terminate_processes(terminate_step(p.pid, freed=9192 << 20, uuids=(UUID,)), impatient)


def test_memory_that_cannot_be_read_is_not_proven(driver: StubDriver) -> None:
    driver.show(mode="no-driver")
    with running("sleep") as p, pytest.raises(TransportError, match="not proven"):
        terminate_processes(terminate_step(p.pid, freed=1 << 30, uuids=(UUID,)), context(driver))


def test_a_survivor_in_the_kernel_is_named() -> None:
    text = processes._outcome({"pid": 7, "outcome": "survives KILL in state D", "seconds": None})
    assert "pid 7: survives KILL in state D; it waits in the kernel" in text


@pytest.mark.parametrize(
    ("path", "one"),
    [
        ("/docker/" + "a" * 64, True),
        ("/kubepods/besteffort/pod12/" + "b" * 64, True),
        ("/system.slice/trainer.service", True),
        ("/slurm/uid_1000/job_77/step_0", True),
        ("/user.slice/user-1000.slice/session-3.scope", False),
        ("/system.slice/sshd.service", False),
        ("", False),
    ],
)
def test_which_cgroups_are_one_piece_of_work(path: str, one: bool) -> None:
    space = Sent("terminate")
    assert space["one_job"](path) is one
