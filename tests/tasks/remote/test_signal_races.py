"""A process that ends, or becomes another program, between the look at it and its signal: whoever came instead gets none."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.remote.probes.proc import boot_id, command, stat
from tests.support.gpu_node import ALIVE, state, wait_state
from tests.support.racing import meanwhile
from tests.support.reused_pid import Moment, outcomes
from tests.support.sent import Sent

BECOMES = (
    "import os, signal, time\n"
    "signal.signal(signal.SIGUSR1, lambda *_: os.execvp('sleep', ['sleep', '60']))\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(1)"
)


def raced(probe: str, *moments: Moment) -> list[dict[str, Any]]:
    """What the probe answered, once the number was another's at each moment."""
    found = outcomes(probe, moments)
    assert [f["took"] for f in found] == [True] * len(moments)
    assert [f["lives"] for f in found] == [True] * len(moments), found
    return [f["answer"] for f in found]


def test_a_number_that_is_given_to_another_while_processes_are_ended() -> None:
    """Before its descriptor is taken, after it, after its start was read, after the whole look, and between TERM and KILL."""
    early, taken, looked, *late = raced(
        "terminate", ("open_pidfd", 1, True), ("open_pidfd", 1, False), ("uid", 1, True), ("outsiders", 1, False),
        ("check", 1, False), ("send", 2, False), ("note", 1, False), ("stopped", 1, False),
    )  # fmt: skip
    assert "is another process now" in early["refused"]
    assert "is another process now" in taken["refused"]
    assert "refused" in looked
    assert all(one["ended"][0]["outcome"].startswith("ended by") for one in late), late


def test_a_number_that_is_given_to_another_while_a_supervisor_is_stopped() -> None:
    early, taken, looked, late = raced(
        "stop_process", ("open_pidfd", 1, True), ("open_pidfd", 1, False), ("same_owner", 1, True), ("judged", 1, False)
    )
    assert "is another process now" in early["refused"]
    assert "is another process now" in taken["refused"]
    assert "refused" in looked
    assert "refused" in late


@pytest.mark.parametrize(("probe", "moment"), [("terminate", "outsiders"), ("stop_process", "open_pidfd")])
def test_one_that_becomes_another_program_before_its_signal(probe: str, moment: str) -> None:
    """exec keeps number, start and descriptor; what it runs is compared last of all."""
    space = Sent(probe)
    p = subprocess.Popen([sys.executable, "-c", BECOMES], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        p.stdout.readline()
        now = stat(p.pid)
        assert now is not None
        who = {"pid": p.pid, "start_ticks": now["start_ticks"], "command": command(p.pid, "S", "")[:500], "uid": os.getuid()}
        ask = {"boot_id": boot_id(), "processes": [who], "cgroup": "", "sid": p.pid, "grace_s": 0.2, "on_these": [],
               "on_others": [], "kept": 500} | who  # fmt: skip

        def become() -> None:
            p.send_signal(signal.SIGUSR1)
            while b"sleep" not in Path(f"/proc/{p.pid}/cmdline").read_bytes()[:6]:
                wait_state(p.pid, "SRD")

        with meanwhile(space, moment, become):
            assert "runs another program now: 'sleep 60'" in space["main"](ask)["refused"]
        assert state(p.pid) in ALIVE
    finally:
        p.kill()
        p.communicate()
