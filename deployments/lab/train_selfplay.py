"""A job to play with: one real process in the state that its first argument names. Standard library only.

sleep · burn (CPU) · stubborn (ignores TERM) · checkpoint PATH (writes on and on) · family (a parent with a defunct and
a live child) · worker (forks a child that burns CPU, waits itself) · orphan PATH (its parent leaves; the pid goes to
PATH) · rows PATH (SQLite, WAL) · secret --api-key VALUE
"""

import os
import signal
import sqlite3
import sys
import time
from pathlib import Path


def sleep() -> None:
    """Do nothing."""
    while True:
        time.sleep(0.2)


def burn() -> None:
    """Use CPU."""
    n = 0
    while True:
        n += 1


def checkpoint(path: str) -> None:
    """Write on and on into an open file."""
    with Path(path).open("wb", buffering=0) as f:
        while True:
            f.write(b"x" * 4096)
            time.sleep(0.05)


def rows(path: str) -> None:
    """Insert a row every 50 ms into a WAL database."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE IF NOT EXISTS games (id INTEGER PRIMARY KEY, moves TEXT)")
    while True:
        db.execute("INSERT INTO games (moves) VALUES ('e4')")
        time.sleep(0.05)


def family() -> None:
    """One child ends and is not reaped, one lives."""
    if os.fork() == 0:
        os._exit(0)
    if os.fork() == 0:
        sleep()
    sleep()


def orphan(path: str) -> None:
    """Leave the work to a child whose parent goes away."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(str(os.getpid()))
            sleep()
        os._exit(0)
    os.wait()


def main(args: list[str]) -> None:
    """Be what was asked for."""
    kind = args[0]
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "worker" and os.fork() == 0:
        burn()
    print("ready", flush=True)
    if kind in ("checkpoint", "rows", "orphan"):
        {"checkpoint": checkpoint, "rows": rows, "orphan": orphan}[kind](args[1])
    elif kind in ("burn", "family"):
        {"burn": burn, "family": family}[kind]()
    else:
        sleep()


if __name__ == "__main__":
    main(sys.argv[1:])
