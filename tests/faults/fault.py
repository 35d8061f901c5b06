"""A fault that strikes once, when a run reaches a named point: a signal to this process or to another one."""

import json
import os
import signal
import time
from pathlib import Path


def arm(path: Path, point: str, sig: str, pid: int | None = None, nth: int = 1) -> None:
    """Writes the fault: at the `nth` time that a run reaches `point`, `sig` goes to `pid` (None: itself)."""
    facts = {"point": point, "signal": sig, "pid": pid, "nth": nth}
    path.write_text(json.dumps(facts), encoding="utf-8")


def struck(path: Path) -> bool:
    """True once the fault has struck."""
    return path.with_suffix(".struck").exists()


def install_faults() -> None:
    """Listens to the progress of runs in this process; `$FAULT` names the fault's file."""
    from flows.progress import LISTENERS

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
            os.close(os.open(Path(name).with_suffix(".struck"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        os.kill(fault["pid"] or os.getpid(), getattr(signal, fault["signal"]))
        time.sleep(0.3)  # a signal to another process takes effect before this one goes on

    LISTENERS.append(listen)
