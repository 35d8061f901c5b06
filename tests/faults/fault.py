"""A fault that strikes once, when a run reaches a named point: a signal to this process or to another one, or a hold.

A hold keeps the run where it is while its other threads go on, until `let_go`: a step that takes long.
"""

import json
import os
import signal
import time
from pathlib import Path

from tasks.transport.local import read_state

HOLD = "hold"


def arm(path: Path, point: str, sig: str, pid: int | None = None, nth: int = 1) -> None:
    """Writes the fault: at the `nth` time that a run reaches `point`, `sig` (or a hold) goes to `pid` (None: itself)."""
    facts = {"point": point, "signal": sig, "pid": pid, "nth": nth}
    path.write_text(json.dumps(facts), encoding="utf-8")


def struck(path: Path) -> bool:
    """True once the fault has struck: whoever was to stand still does so, and a SIGCONT that follows finds it stopped."""
    at = path.with_suffix(".struck")
    if not at.exists():
        return False
    facts = json.loads(path.read_text(encoding="utf-8"))
    if facts["signal"] != "SIGSTOP":
        return True
    pid = at.read_text(encoding="utf-8")
    return bool(pid) and read_state(int(pid)) in ("T", "")


def let_go(path: Path) -> None:
    """Ends a hold."""
    path.with_suffix(".go").touch()


def _hold(path: Path, limit_s: float = 120.0) -> None:
    until = time.monotonic() + limit_s
    while not path.with_suffix(".go").exists() and time.monotonic() < until:
        time.sleep(0.02)


def install_faults() -> None:
    """Listens to the progress of runs in this process; `$FAULT` names the fault's file."""
    from flows.engine.progress import LISTENERS

    seen: dict[str, int] = {}

    def listen(point: str, _text: str) -> None:
        name = os.environ.get("FAULT")
        if not name or not Path(name).exists():
            return
        fault = json.loads(Path(name).read_text(encoding="utf-8"))
        seen[point] = seen.get(point, 0) + 1
        if point != fault["point"] or seen[point] != fault["nth"]:
            return
        try:
            mark = os.open(Path(name).with_suffix(".struck"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return
        os.write(mark, str(fault["pid"] or os.getpid()).encode())
        os.close(mark)
        if fault["signal"] == HOLD:
            _hold(Path(name))
            return
        os.kill(fault["pid"] or os.getpid(), getattr(signal, fault["signal"]))
        time.sleep(0.3)  # a signal to another process takes effect before this one goes on

    LISTENERS.append(listen)
