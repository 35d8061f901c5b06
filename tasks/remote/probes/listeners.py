"""TCP sockets of this machine and who has them open. Part of other probes; changes nothing."""

from tasks.remote.probes.proc import link, names, pids, read


def port_rows() -> "list[list[str]]":
    """Every TCP socket of this network namespace, as the kernel's columns."""
    texts = (read("/proc/net/%s" % f, 1 << 24) or "" for f in ("tcp", "tcp6"))
    return [row.split() for text in texts for row in text.splitlines()[1:]]


def holders(inodes: "set[str]") -> "list[int]":
    """Processes that have those sockets open."""
    wanted = {"socket:[%s]" % i for i in inodes}
    found = []
    for pid in pids():
        fds = names("/proc/%d/fd" % pid) or []
        if any(link("/proc/%d/fd/%s" % (pid, fd)) in wanted for fd in fds):
            found.append(pid)
    return found


def listeners(port: int) -> "list[int]":
    """Processes that listen on that port."""
    rows = [r for r in port_rows() if len(r) > 9]
    inodes = {r[9] for r in rows if r[3] == "0A" and int(r[1].rsplit(":", 1)[1], 16) == port}
    return holders(inodes) if inodes else []
