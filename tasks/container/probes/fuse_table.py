"""Reads the table of FUSE mounts and tries a mount without being caught in it. For the probes about mounts."""

import errno
import os
import re
import time

from tasks.remote.probes.proc import command, link, names, pids, read, stat

OCTAL = re.compile(r"\\([0-7]{3})")
GONE = (errno.ENOTCONN, errno.ECONNABORTED)  # the kernel's words once the serving process has closed /dev/fuse


def table(path: str) -> "list[tuple[str, str, str, tuple[int, int]]] | None":
    """(source, mount point, type, (uid, gid) of its user) of the FUSE mounts in a mount table."""
    text = read(path, 1 << 20)
    if text is None:
        return None
    rows = [line.split(" ") for line in text.splitlines() if line.count(" ") >= 5]
    plain = [([OCTAL.sub(lambda m: chr(int(m.group(1), 8)), w) for w in row[:3]], _user(row[3])) for row in rows]
    return [(r[0], r[1], r[2], user) for r, user in plain if r[2].split(".")[0] in ("fuse", "fuseblk")]


def _user(options: str) -> "tuple[int, int]":
    found = dict(o.split("=", 1) for o in options.split(",") if o.startswith(("user_id=", "group_id=")))
    return int(found.get("user_id", 0)), int(found.get("group_id", 0))


def at(path: str, rows: "list[tuple[str, str, str, tuple[int, int]]] | None") -> "tuple[int, int] | None":
    """The user of the mount at that point that lies on top; None when there is none."""
    found = [user for _, point, _, user in rows or [] if point == path]
    return found[-1] if found else None


def try_mount(fd: int, user: "tuple[int, int]", wait_s: float) -> "tuple[str, str]":
    """State and error of the mount behind a descriptor: asked in a child, which is left behind when the mount hangs.

    dead: its process is gone. hung: no answer, or an error that a living process may give too. Without allow_root nobody
    but the mount's own user may look, root neither: then it is looked at as that user.
    """
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            number, text = _look(fd)
            if number == errno.EACCES and os.geteuid() == 0 and user[0] != 0:
                os.setgroups([])
                os.setresgid(user[1], user[1], user[1])
                os.setresuid(user[0], user[0], user[0])
                number, text = _look(fd)
            os.write(w, ("%d %s" % (number, text)).encode())
        finally:
            os._exit(0)
    os.close(w)
    ended = wait(child, wait_s)
    said = os.read(r, 1000).decode() if ended else ""
    os.close(r)
    if not ended:
        return "hung", "no answer in %g s" % wait_s
    code, _, words = said.partition(" ")
    state = "dead" if int(code or 0) in GONE else "hung" if code == str(errno.EIO) else "alive"
    return state, words


def _look(fd: int) -> "tuple[int, str]":
    try:
        os.fstatvfs(fd)
        os.listdir(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd))
    except OSError as e:
        return e.errno or 0, str(e.strerror)
    return 0, ""


def try_path(path: str, user: "tuple[int, int]", wait_s: float, near: int = 0) -> "tuple[str, str]":
    """The same of a mount by its path; `near` is a process that sees it under that path's end (0: this one)."""
    try:
        fd = os.open(path, os.O_PATH)
    except OSError as e:
        return "alive", str(e.strerror)
    try:
        return judged(try_mount(fd, user, wait_s), path, near)
    finally:
        os.close(fd)


def judged(tried: "tuple[str, str]", path: str, near: int) -> "tuple[str, str]":
    """No mount is dead whose process lives: a living one may hand on "not connected" from its storage."""
    pid = serving(path, near) if tried[0] == "dead" else 0
    return ("hung", "%s, and its process %d lives" % (tried[1], pid)) if pid else tried


def serving(path: str, near: int) -> int:
    """A process that has /dev/fuse open and names the mount point, in the mount namespace of `near` (0: ours); else 0."""
    space, inside = link("/proc/%s/ns/mnt" % (near or "self")), path
    if near:
        inside = path[len("/proc/%d/root" % near) :]
    for pid in pids():
        fds = names("/proc/%d/fd" % pid) or []
        if not any(link("/proc/%d/fd/%s" % (pid, fd)) == "/dev/fuse" for fd in fds):
            continue
        now = stat(pid)
        if now is None or now["state"] in "ZX" or link("/proc/%d/ns/mnt" % pid) != space:
            continue
        if " %s " % inside in " %s " % command(pid, now["state"], now["comm"]):
            return pid
    return 0


def wait(child: int, wait_s: float) -> bool:
    """True when the child ended in time; otherwise it is killed (a killable wait ends with it)."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(child, 9)
    time.sleep(0.05)
    os.waitpid(child, os.WNOHANG)
    return False
