"""Changes one FUSE mount, of the host or in a container: unmounts it if it is dead, mounts it again, reads it. JSON in and out.

Argument: path, mount (argv); engine (argv) and id where it is in a container. Refuses a mount that answers, one whose process
lives, and one that may not be looked at. What is unmounted is the very mount that was found dead, by a descriptor of it: one
that somebody else mounts there meanwhile stays. Fails on files underneath.
"""

import ctypes
import errno
import json
import os
import subprocess
import sys
import time
from typing import Any

from tasks.container.probes.fuse_table import at, judged, table, try_mount
from tasks.remote.probes.refused import Refused, refusal

WANTS = {"path": "str", "mount": "list", "engine": "list?", "id": "str?"}
DETACH, NEW_MOUNTS = 2, 0x00020000  # MNT_DETACH; CLONE_NEWNS
LAYERS = 5


def run(argv: "list[str]", timeout: float) -> "tuple[int, str]":
    """Exit code and last line."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout
        )
    except FileNotFoundError:
        return 127, "%s: not found" % argv[0]
    except subprocess.TimeoutExpired:
        return 124, "no end after %g s" % timeout
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, lines[-1][:300] if lines else ""


class Place:
    """Where the mount is: here, or as one process in a container sees it."""

    def __init__(self, ask: "dict[str, Any]") -> None:
        self.path, self.exec, self.ask = ask["path"], [], ask  # type: str, list[str], dict[str, Any]
        self.pid = self.first() if ask.get("id") else 0
        if self.pid:
            self.exec = list(ask["engine"]) + ["exec", ask["id"]]
        self.seen = ("/proc/%d/root" % self.pid if self.pid else "") + self.path

    def first(self) -> int:
        """Pid of the container's first process. Raises Refused."""
        code, last = run(list(self.ask["engine"]) + ["inspect", "--format", "{{.State.Pid}}", self.ask["id"]], 20)
        if code != 0 or not last.isdigit() or last == "0":
            raise Refused("target-changed", "the container %s does not run: %s" % (self.ask["id"][:12], last))
        return int(last)

    def user(self) -> "tuple[int, int] | None":
        """The user of the mount at the path; None when nothing is mounted there. Raises Refused."""
        rows = table("/proc/%s/mounts" % (self.pid or "self"))
        if rows is None:
            raise Refused("target-changed", "the mount table of %s is gone" % (self.pid or "this process"))
        return at(self.path, rows)

    def held(self) -> int:
        """A descriptor of what lies on top at the path. Raises Refused."""
        try:
            return os.open(self.seen, os.O_PATH)
        except OSError as e:
            raise Refused("cannot-check", "%s may not be looked at: %s" % (self.path, e.strerror)) from None

    def state(self, fd: int, user: "tuple[int, int]") -> "tuple[str, str]":
        """State and error of the mount behind the descriptor."""
        return judged(try_mount(fd, user, 2.0), self.seen, self.pid)


def detach(fd: int, pid: int) -> str:
    """Lazily unmounts the mount behind the descriptor, in a child that enters the container's mounts. "" or why not."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            own = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)  # the container's /proc does not show this child
            if pid and libc.setns(os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY), NEW_MOUNTS) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            os.fchdir(own)
            if libc.umount2(b"%d" % fd, DETACH) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as e:
            os.write(w, ("%d %s" % (e.errno or 0, e.strerror)).encode())
        finally:
            os._exit(0)
    os.close(w)
    said = os.read(r, 1000).decode()
    os.waitpid(child, 0)
    os.close(r)
    return said


def by_path(path: str) -> str:
    """Without the right to unmount by descriptor: the tools that a mount's own user has. "" or why not."""
    last = ""
    for argv in (["fusermount3", "-u", "-z", path], ["fusermount", "-u", "-z", path], ["umount", "-l", path]):
        code, last = run(argv, 20)
        if code == 0:
            return ""
    return last


def unmount(place: Place, done: "list[str]") -> bool:
    """Every dead layer at the path, each noted in `done`. Whether something living lies there now. Raises Refused."""
    for _ in range(LAYERS):
        user = place.user()
        if user is None:
            return False
        fd = place.held()
        try:
            state, error = place.state(fd, user)
            if state == "alive" and not error and done:
                return True
            if state != "dead":
                raise Refused("in-use", "%s is %s, not dead%s" % (place.path, state, ": " + error if error else ""))
            why = detach(fd, place.pid)
        finally:
            os.close(fd)
        if why.startswith("%d " % errno.EINVAL):
            continue  # somebody else unmounted this very mount meanwhile
        if why.startswith("%d " % errno.EPERM) and not place.pid:
            why = by_path(place.path)
        if why:
            raise Refused("not-supported", "unmount failed: %s" % why)
        done.append("umount -l %s" % place.path)
    raise Refused("not-supported", "more than %d dead mounts lie over each other" % LAYERS)


def empty(path: str) -> bool:
    """True for a folder with nothing in it."""
    try:
        return not os.listdir(path)
    except OSError as e:
        return e.errno == errno.ENOENT


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    said = []  # type: list[str]
    try:
        place = Place(ask)
        if unmount(place, said):
            return {"said": said + ["another mount that answers lies at %s; it was left as it is" % place.path]}
        if not empty(place.seen):
            return {"failed": "; ".join(said + ["%s holds files underneath the mount: look at them first" % place.path])}
        if place.pid and place.first() != place.pid:
            raise Refused("target-changed", "the container was started again meanwhile")
    except Refused as e:
        return {"failed": "; ".join(said + [str(e)])} if said else refusal(e)
    said = said or ["it was not mounted any more"]
    code, last = run(place.exec + list(ask["mount"]), 60)
    said.append("mount: exit %d %s" % (code, last))
    state, error = appeared(place) if code == 0 else ("not mounted", "")
    if state != "alive" or error:
        return {"failed": "%s is %s %s after it (%s)" % (place.path, state, error, "; ".join(said))}
    return {"said": said + ["%s is mounted and can be listed" % place.path]}


def appeared(place: Place) -> "tuple[str, str]":
    """State and error of the new mount, which may need a moment."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            user = place.user()
            if user is not None:
                fd = place.held()
                try:
                    return place.state(fd, user)
                finally:
                    os.close(fd)
        except Refused as e:
            return "unknown", str(e)
        time.sleep(0.1)
    return "not mounted", ""


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
