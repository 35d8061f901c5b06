"""Holds a lock file of one owner on this machine while a program that changes something runs. Sent in front of that program.

sys.argv[1] is the program's own data, [2] JSON: owner (file name), run, probe, limit_s, folder ("" for the usual one), wants
(what that data must hold), and [3] the program. The file says who works here: run, probe, pid, since, until (this machine's
clock), and which runs were declared over and may not begin any more. It is never removed: whoever holds an unlinked file
holds nothing.
"""

import errno
import fcntl
import json
import os
import pwd
import signal
import stat
import sys
import time
from typing import Any

from tasks.remote.probes.refused import Refused, refusal
from tasks.remote.probes.wants import misfit

KEPT = 100  # runs that were declared over
PATIENCE_S = 1.0  # another holder keeps the lock file for milliseconds


def folders(given: str) -> "list[str]":
    """Where it may lie, the usual place first. Never from the environment: a login and a service have different ones."""
    if given:
        return [os.path.join(given, str(os.geteuid()))]
    last = "/tmp/gpu-runbooks-%d" % os.geteuid()  # noqa: S108 - owner and mode are looked at
    if os.geteuid() == 0:
        return ["/run/gpu-runbooks", "/var/lib/gpu-runbooks/lock", last]
    try:
        return [os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".gpu-runbooks/lock"), last]
    except KeyError:
        return [last]


def folder(given: str) -> int:
    """The first folder that can be used, open: this user's own, closed to everybody else. Raises Refused."""
    said = []
    for path in folders(given):
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as e:
            said.append("%s: %s" % (path, e.strerror))
            continue
        now = os.fstat(fd)
        if now.st_uid == os.geteuid():
            if now.st_mode & 0o077:
                os.fchmod(fd, 0o700)
            return fd
        os.close(fd)
        said.append("%s belongs to user %d" % (path, now.st_uid))
    raise Refused("not-supported", "no folder for a lock can be used: %s" % "; ".join(said))


def opened(given: str, owner: str) -> int:
    """The owner's file, made at the first time. Raises Refused, OSError."""
    place = folder(given)
    try:
        fd = os.open(owner + ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place)
    finally:
        os.close(place)
    now = os.fstat(fd)
    if not stat.S_ISREG(now.st_mode) or now.st_uid != os.geteuid() or now.st_nlink != 1:
        raise Refused("not-ours", "%s.lock is not a file of this user alone" % owner)
    return fd


def locked(fd: int, how: int) -> bool:
    """False if another one holds it."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def content(fd: int) -> "dict[str, Any]":
    """What the file says; {} for a new one, or one that was cut off."""
    try:
        found = json.loads(os.pread(fd, 1 << 16, 0).decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(fd: int, said: "dict[str, Any]") -> None:
    """Say something else, in one write."""
    text = json.dumps(said).encode()
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


def who(said: "dict[str, Any]") -> str:
    """The one that holds it, in words."""
    left = float(said.get("until", 0)) - time.time()
    about = "pid %s, %s, for at most %.0f s more" % (said.get("pid"), said.get("probe"), max(0.0, left))
    return "another action of run %s is still working here (%s)" % (said.get("run", "?"), about)


def take(ask: "dict[str, Any]") -> int:
    """The lock; it lives as long as this process. Commands of one run may work side by side. Raises Refused."""
    fd, end = opened(ask["folder"], ask["owner"]), time.monotonic() + PATIENCE_S
    while True:
        first = locked(fd, fcntl.LOCK_EX)
        said = content(fd)
        if ask["run"] in said.get("over", ()):
            raise Refused("superseded", "run %s was declared over here: it may not begin any more" % ask["run"])
        if first:
            now, mine = time.time(), {k: ask[k] for k in ("run", "probe")}
            write(fd, dict(mine, pid=os.getpid(), since=now, until=now + ask["limit_s"], over=said.get("over", [])))
        if (first or said.get("run") == ask["run"]) and locked(fd, fcntl.LOCK_SH):
            return fd
        if time.monotonic() > end:
            raise Refused("owner-busy", who(said))
        time.sleep(0.02)  # two commands of one run that begin at once; or one that is just ending


def end_in_time(limit_s: float) -> None:
    """Ends this process and its children after that time, where nobody is left to do it: the engine may have been killed."""
    if os.getsid(0) == os.getpid():  # over SSH the node's own `timeout` does it
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, limit_s)


def main() -> None:
    """Takes the lock, then runs the program; without the lock, or what it must be told, nothing of it runs."""
    ask, program = json.loads(sys.argv[2]), sys.argv[3]
    try:
        no = misfit(json.loads(sys.argv[1]), ask.get("wants", {}))
        if no:
            raise Refused("bad-arguments", "%s got other arguments than it needs: %s" % (ask["probe"], no))
        take(ask)
    except (Refused, OSError) as e:
        print(json.dumps(refusal(e)))
        return
    end_in_time(ask["limit_s"])
    del sys.argv[2:]
    exec(compile(program, ask["probe"], "exec"), {"__name__": "__main__"})  # noqa: S102 - what came with it


if __name__ == "__main__" and len(sys.argv) > 3:
    main()
