"""A stopped process goes on, exactly that one, and shows that it runs and works; or nothing is signalled."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from runbooks.core.kinds import undo_of
from runbooks.core.plan import Step
from runbooks.core.signals import continued
from tasks.context import ActionRefused
from tasks.gpu import act_processes as processes
from tasks.gpu.act_processes import continue_processes
from tasks.transport.base import TransportError
from tests.support.gpu_node import BOOT, context, job, look, running, state, wait_state
from tests.support.printed import by_hand
from tests.support.sent import Sent
from tests.tasks.gpu.test_printed import judged, step_of


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WATCH_S", 0.6)


def step_for(*pids: int, boot: str = BOOT, **fields: Any) -> Step:
    """A step for these processes as they are now, one field of the first changed."""
    found = look(*pids, window_s=0)
    made = continued("node-a", boot, [found[p] for p in pids])
    made.args["processes"][0].update(fields)
    return made


def refused(step: Step, *pids: int, words: str) -> None:
    """It is refused with these words, and nobody was let go."""
    before = {pid: state(pid) for pid in pids}
    with pytest.raises(ActionRefused, match=words):
        continue_processes(step, context())
    time.sleep(0.1)
    assert {pid: state(pid) for pid in pids} == before


def test_a_stopped_holder_of_a_gpu_goes_on_as_the_first_plan(driver: StubDriver, tmp_path: Path) -> None:
    """Found, planned first, done, and nothing is wrong any more; its work goes on where it stood."""
    file = tmp_path / "ckpt"
    with running("checkpoint", str(file), tag="go", stopped=True) as p, running("sleep", tag="beside", stopped=True) as other:
        driver.show(holding(p.pid))
        size = file.stat().st_size if file.exists() else 0  # it may have been stopped before its first save
        found = judged(driver, (job("go"),))
        assert [plan.name for plan in found.plans][:2] == ["let it go on", "clean up only"]
        step = step_of(found, "continue-processes")
        assert [x["pid"] for x in step.args["processes"]] == [p.pid]
        (said,) = continue_processes(step, context(driver)).said
        assert f"pid {p.pid} runs again" in said
        _, undo = undo_of(step)
        assert "it has not worked yet" not in said
        assert file.stat().st_size > size
        assert state(other.pid) == "T", "nobody else is let go"
        assert not judged(driver, (job("go"),)).wrong
        subprocess.run(["sh", "-c", "\n".join(undo)], check=True)
        wait_state(p.pid, "T")


def test_one_that_waits_is_told_as_it_is() -> None:
    script = "import os, sys\nprint('ready', flush=True)\nos.read(0, 1)\n"
    p = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        p.stdout.readline()
        p.send_signal(signal.SIGSTOP)
        wait_state(p.pid, "T")
        (said,) = continue_processes(step_for(p.pid), context()).said
        assert "runs again (state S): 0.00 s of CPU, 0 bytes of I/O" in said
        assert "it has not worked yet: what it waits for was not read" in said
    finally:
        p.kill()
        p.communicate()


def test_another_identity_or_boot_is_refused() -> None:
    with running("sleep", stopped=True) as p, running("sleep", stopped=True) as other:
        ticks = step_for(p.pid).args["processes"][0]["start_ticks"]
        refused(step_for(p.pid, other.pid, start_ticks=ticks - 1), p.pid, other.pid, words="is another process now")
        refused(step_for(p.pid, uid=12345), p.pid, words="belongs to uid")
        refused(step_for(p.pid, command="python3 something else"), p.pid, words="runs another program")
        refused(step_for(p.pid, boot="00000000-0000-0000-0000-000000000000"), p.pid, words="was booted since")
        empty = step_for(p.pid)
        empty.args["processes"].clear()
        refused(empty, p.pid, words="an empty list never means all")


def test_one_that_goes_on_or_ends_before_the_act_saves_all_of_them() -> None:
    """Somebody continued it, or it was killed, or its number belongs to a new process: the plan is not what is there."""
    with running("sleep", stopped=True) as p, running("sleep", stopped=True) as other:
        step = step_for(other.pid, p.pid)
        p.send_signal(signal.SIGCONT)
        wait_state(p.pid, "SR")
        refused(step, other.pid, words=f"pid {p.pid} is not stopped any more")
        p.kill()
        wait_state(p.pid, "Z")
        refused(step, other.pid, words=f"pid {p.pid} has ended")
        p.wait()
        refused(step, other.pid, words=f"pid {p.pid} has ended")


def test_what_a_debugger_holds_is_left_to_it() -> None:
    script = (
        "import ctypes, os, sys, time\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0\n"  # PTRACE_SEIZE: it stays stopped
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with running("sleep", stopped=True) as p:
        step = step_for(p.pid)
        tracer = subprocess.Popen([sys.executable, "-c", script, str(p.pid)], stdout=subprocess.PIPE, text=True)
        try:
            assert tracer.stdout is not None
            assert tracer.stdout.readline() == "ready\n"
            refused(step, p.pid, words=f"is traced by pid {tracer.pid}: a debugger holds it|not stopped any more: its state is t")
        finally:
            tracer.kill()
            tracer.communicate()


@pytest.mark.parametrize(("sent", "says"), [(signal.SIGKILL, "ended"), (signal.SIGCONT, "runs")])
def test_one_that_ends_or_goes_on_between_the_look_and_the_signal(sent: signal.Signals, says: str) -> None:
    """Nobody else gets the signal, and what became of it is told."""
    space = Sent("go_on")
    with running("sleep", stopped=True) as p:
        args = step_for(p.pid).args
        check = space["check"]

        def then_somebody(ask: dict[str, Any]) -> Any:
            held = check(ask)
            os.kill(p.pid, sent)
            wait_state(p.pid, "ZSR")
            return held

        space["check"] = then_somebody
        (one,) = space["main"](args | {"watch_s": 0.3})["continued"]
        assert one["outcome"] == says


@pytest.mark.parametrize(
    ("does", "says"),
    [("os.kill(os.getpid(), signal.SIGSTOP)", "is stopped again"), ("sys.exit(3)", "ended 0.")],
)
def test_one_that_does_not_stay_awake_is_no_success(does: str, says: str) -> None:
    script = (
        "import os, signal, sys\n"
        f"def on(*_):\n    {does}\n"
        "signal.signal(signal.SIGCONT, on)\nprint('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    p = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        p.stdout.readline()
        p.send_signal(signal.SIGSTOP)
        wait_state(p.pid, "T")
        with pytest.raises(TransportError, match=says):
            continue_processes(step_for(p.pid), context())
    finally:
        p.kill()
        p.communicate()


def test_what_is_printed_continues_it_and_nobody_else(driver: StubDriver, tmp_path: Path) -> None:
    work = ("checkpoint", str(tmp_path / "ckpt"))
    with running(*work, tag="typed", stopped=True) as p, running("sleep", tag="beside", stopped=True) as other:
        driver.show(holding(p.pid))
        step = step_of(judged(driver, (job("typed"),)), "continue-processes")
        elsewhere = tuple(c.replace(f"/proc/{p.pid}/", f"/proc/{other.pid}/").replace(f" {p.pid}", f" {other.pid}") for c in step.commands)
        by_hand([step.model_copy(update={"commands": elsewhere})])
        assert state(other.pid) == "T", "a process with another start time is not touched"
        assert by_hand([step]).returncode == 0
        wait_state(p.pid, "SR")
        assert not judged(driver, (job("typed"),)).wrong
