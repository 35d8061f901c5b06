"""A process that ends in the middle of a probe, and another one that gets its number: as a program in a PID namespace of its own.

Run by `outcomes`; prints, for each moment, what the probe answered and whether the newcomer lives."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.racing import meanwhile
from tests.support.sent import Sent

ROOT = Path(__file__).parents[2]
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
Moment = tuple[str, int, bool]  # a function of the probe, its call number, before it


def outcomes(probe: str, moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """Per moment {"answer", "lives", "took": the number was given to the newcomer}."""
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", __name__, probe, json.dumps(moments)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def one(probe: str, moment: Moment) -> dict[str, Any]:
    """The probe is told to end a process; at that moment it has ended and its number is another's."""
    space = Sent(probe)
    old = subprocess.Popen([sys.executable, "-c", IGNORES], stdout=subprocess.PIPE, start_new_session=True)
    assert old.stdout is not None
    old.stdout.readline()
    now, new = space["stat"](old.pid), list[subprocess.Popen[bytes]]()
    who = {"pid": old.pid, "start_ticks": now["start_ticks"], "command": space["command"](old.pid, "S", ""), "uid": os.getuid()}
    ask = {"boot_id": space["boot_id"](), "processes": [who], "cgroup": "", "sid": now["sid"], "grace_s": 0.3,
           "on_these": [], "on_others": [], "kept": 4096} | who  # fmt: skip

    def reuse() -> None:
        old.kill()
        old.wait()
        time.sleep(0.02)  # a tick: the newcomer's start is another one
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(old.pid - 1))
        new.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True))

    name, turn, before = moment
    with meanwhile(space, name, reuse, turn=turn, before=before):
        answer = space["main"](ask)
    time.sleep(0.1)
    found = {"answer": answer, "lives": new[0].poll() is None, "took": new[0].pid == old.pid}
    new[0].kill()
    new[0].wait()
    return found


if __name__ == "__main__":
    print(json.dumps([one(sys.argv[1], moment) for moment in json.loads(sys.argv[2])]))
