"""TCP sockets of this machine and who has them open. Part of other probes; changes nothing."""

import ipaddress
import sys

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


def listeners(port: int, addresses: "list[str] | None" = None) -> "list[int]":
    """Processes that listen on that port: at one of the addresses or at all of the machine's; None: wherever."""
    rows = [r[1].rsplit(":", 1) + [r[9]] for r in port_rows() if len(r) > 9 and r[3] == "0A"]
    inodes = {inode for at, number, inode in rows if int(number, 16) == port and (addresses is None or listens(at, addresses))}
    return holders(inodes) if inodes else []


def listens(hexed: str, addresses: "list[str]") -> bool:
    """Whether a socket that is bound to what the kernel writes so takes connections to one of the addresses."""
    raw = bytes.fromhex(hexed)
    words = [raw[i : i + 4] for i in range(0, len(raw), 4)]
    at = ipaddress.ip_address(b"".join(w[::-1] if sys.byteorder == "little" else w for w in words))
    return at.is_unspecified or str(getattr(at, "ipv4_mapped", None) or at) in addresses


def own_address(address: str) -> bool:
    """Whether this machine has it. Not asked by binding to it: net.ipv4.ip_nonlocal_bind lets others be bound, too."""
    at = ipaddress.ip_address(address)
    if at.version == 6:
        rows = (read("/proc/net/if_inet6", 1 << 20) or "").splitlines()
        return at.is_loopback or at.packed in [bytes.fromhex(row.split()[0]) for row in rows if row.strip()]
    trie = [row.split() for row in (read("/proc/net/fib_trie", 1 << 24) or "").splitlines()]
    owned = any(row == ["/32", "host", "LOCAL"] and trie[n - 1] == ["|--", address] for n, row in enumerate(trie))
    return at.is_loopback or owned
