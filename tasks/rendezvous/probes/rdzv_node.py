"""Reads torchrun agents, their workers, ports and reachability on a node. One JSON argument, one JSON answer.

Argument: pids (that a rendezvous names), ports, addresses (host:port), jobs [{name, match}], checkpoints (a glob).
"""

import glob
import json
import os
import re
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from tasks.remote.probes.listeners import holders, port_rows
from tasks.remote.probes.mesh import proxy
from tasks.remote.probes.proc import (
    HZ,
    MARK,
    ancestors,
    boot_id,
    cgroup,
    command,
    environ,
    guarded,
    in_container,
    link,
    names,
    namespace,
    pids,
    read,
    stat,
    status,
    uptime,
)

KTHREAD = 0x00200000
KEEP = re.compile(
    r"^(RANK|WORLD_SIZE|LOCAL_RANK|GROUP_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|TORCHELASTIC_\w+|PET_\w+)$"
)
PLACE = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # what env:// needs, beside the port
LAUNCHER = re.compile(r"torchrun|torch\.distributed|torch/distributed")


def argv(pid: int, state: str) -> "list[str] | None":
    """Its arguments; None when it is stuck in the kernel and does not give them."""
    path = "/proc/%d/cmdline" % pid
    raw = guarded(path) if state == "D" else read(path, 1 << 17)
    if state == "D" and not raw:
        return None
    return [a for a in (raw or "").split("\0") if a][:400]


def look(asked: "set[int]", jobs: "list[dict[str, str]]") -> "dict[str, Any]":
    """Every process once."""
    mine = ancestors()
    found: "dict[str, Any]" = {"agents": [], "workers": [], "pids": [], "hidden": 0}
    boot = time.time() - uptime()
    for pid in pids():
        now = stat(pid)
        if now is None or pid in mine or now["flags"] & KTHREAD or now["state"] in "ZX":
            continue
        env, args = environ(pid, KEEP), argv(pid, now["state"])
        if env is None or args is None:
            found["hidden"] += 1
        env, args = env or {}, args or []
        one = {"pid": pid, "started_s": boot + now["start_ticks"] / HZ, "env": env}
        one.update({k: now[k] for k in ("start_ticks", "state", "ppid", "sid")})
        spaces = [int(n) for n in status(pid).get("NSpid", str(pid)).split()]
        if spaces[-1] in asked:  # the number by which it knows itself: that is what it told the rendezvous
            python = bool(re.search("python|torch", " ".join(args[:3]))) or not args
            told = {"pid": spaces[-1], "started_s": one["started_s"], "python": python, "namespace": namespace(pid)}
            found["pids"].append(told)
        sort(found, one, args, spaces, jobs)
    return found


def sort(
    found: "Any", one: "dict[str, Any]", args: "list[str]", spaces: "list[int]", jobs: "list[dict[str, str]]"
) -> None:
    """Put a process among the agents, the workers, or neither."""
    line = " ".join(args)
    if MARK in line:
        return
    env = one["env"]
    if any(LAUNCHER.search(a) for a in args[:8]):
        uid = int((status(one["pid"]).get("Uid") or "0").split()[0])
        text = command(one["pid"], one["state"], "")
        found["agents"].append(dict(one, argv=args, command=text, ns_pids=spaces, uid=uid, cgroup=cgroup(one["pid"])))
    if "TORCHELASTIC_RUN_ID" in env:
        found["workers"].append(dict(one, run_id=env["TORCHELASTIC_RUN_ID"], job=""))
    elif args and re.search("python", args[0]):
        mine = next((j["name"] for j in jobs if re.search(j["match"], line)), "")
        launched = any(LAUNCHER.search(a) for a in args[:8])
        if all(env.get(name) for name in PLACE):  # a shell of its container has them as well, and so has a launcher
            found["workers"] += [] if launched else [dict(one, run_id=None, job=mine)]
        elif mine and "RANK" not in env and "WORLD_SIZE" not in env:
            found["workers"].append(dict(one, run_id=None, job=mine))


def ports(wanted: "set[int]") -> "list[dict[str, Any]]":
    """Who listens on those ports, and what else is on them."""
    rows = [r for r in port_rows() if len(r) > 9]
    found = []
    for port in sorted(wanted):
        mine = [r for r in rows if int(r[1].rsplit(":", 1)[1], 16) == port]
        inodes = {r[9] for r in mine if r[3] == "0A"}
        who = holders(inodes) if inodes else []
        one = {"port": port, "open": bool(inodes), "listeners": who, "established": peers(mine, rows, who)}
        one["holders"] = [h for h in (holder(pid) for pid in who) if h]
        found.append(dict(one, time_wait=sum(1 for r in mine if r[3] == "06")))
    return found


def holder(pid: int) -> "dict[str, Any] | None":
    """Since when it runs, and its command; None when it has ended."""
    now = stat(pid)
    if now is None:
        return None
    boot = time.time() - uptime()
    return {"pid": pid, "started_s": boot + now["start_ticks"] / HZ, "command": command(pid, now["state"], now["comm"])}


def peers(mine: "list[list[str]]", rows: "list[list[str]]", who: "list[int]") -> int:
    """Connections from others: a store's host is a client of its own store, which does not count."""
    own = {link("/proc/%d/fd/%s" % (pid, fd)) for pid in who for fd in names("/proc/%d/fd" % pid) or []}
    ends = {(r[1], r[2]): "socket:[%s]" % r[9] for r in rows}
    return sum(1 for r in mine if r[3] == "01" and ends.get((r[2], r[1])) not in own)


def shut(s: "socket.socket") -> str:
    """Whether it is closed at once: a store and an etcd wait for the first word, something in between may not."""
    s.settimeout(1.5)
    try:
        return "" if s.recv(1) else "closed: accepted, then closed without a byte"
    except socket.timeout:
        return ""
    except OSError as e:
        return "closed: accepted, then %s" % (e.strerror or e)


def own_name() -> "dict[str, Any]":
    """The host name, what it resolves to here, and the names that this gives: by these an agent knows itself."""
    host = socket.gethostname()
    try:
        rows = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)
    except OSError:
        rows = []
    return {"host_name": host, "own_addresses": sorted({str(r[4][0]) for r in rows}), "canonical": sorted({r[3] for r in rows if r[3]})}


def reach(address: str, out: "dict[str, Any]") -> None:
    """Resolve host:port and connect to it."""
    host, _, port = address.rpartition(":")
    found = {"address": address, "resolves": [], "error": ""}  # type: Any
    out[address] = found
    try:
        rows = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError) as e:
        found["error"] = "name does not resolve: %s" % e
        return
    found["resolves"] = sorted({r[4][0] for r in rows})
    for family, kind, proto, _, where in rows:
        s = socket.socket(family, kind, proto)
        s.settimeout(3)
        try:
            s.connect(where)
            found["error"] = shut(s)
            return
        except OSError as e:
            found["error"] = "connection refused" if isinstance(e, ConnectionRefusedError) else str(e)
        finally:
            s.close()


def reaches(addresses: "list[str]") -> "list[dict[str, Any]]":
    """All at once: one that hangs must not delay the others."""
    out = {}  # type: dict[str, Any]
    threads = [threading.Thread(target=reach, args=(a, out), daemon=True) for a in addresses]
    for t in threads:
        t.start()
    end = time.monotonic() + 8
    for t in threads:
        t.join(max(0.0, end - time.monotonic()))
    late = {"resolves": [], "error": "no answer within 8 s"}  # type: Any
    pairs = zip(addresses, threads)  # noqa: B905
    return [dict(late, address=a) if t.is_alive() or a not in out else out[a] for a, t in pairs]


def own_names() -> "list[str]":
    """Every name and address of this machine."""
    host = socket.gethostname()
    found = {host, socket.getfqdn(), "localhost", "127.0.0.1", "::1"}
    with suppress(OSError):
        found.update(str(r[4][0]) for r in socket.getaddrinfo(host, None))
    found.update(local_addresses())
    return sorted(found)


def local_addresses() -> "set[str]":
    """IPv4 addresses in the kernel's local table (fib_trie), IPv6 from if_inet6."""
    text = read("/proc/net/fib_trie", 1 << 22) or ""
    four = set(re.findall(r"\|-- ([\d.]+)\n\s+/32 host LOCAL", text))
    six = [line.split()[0] for line in (read("/proc/net/if_inet6") or "").splitlines()]
    return four | {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(s)) for s in six}


def main() -> None:
    """Answer on standard output."""
    ask = json.loads(sys.argv[1])
    answer = {"boot_id": boot_id(), "clock_s": time.time(), "names": own_names(), "inside": in_container(),
              "namespace": namespace(os.getpid())}  # type: Any
    answer.update(look(set(ask["pids"]), ask["jobs"]))
    mounts = [m.split() for m in (read("/proc/mounts", 1 << 20) or "").splitlines()]
    if any(len(m) > 3 and m[1] == "/proc" and re.search("hidepid=([12]|inv)", m[3]) for m in mounts):
        answer["hidden"] += 1
    wanted, addresses = set(ask["ports"]), list(ask["addresses"])
    for w in answer["workers"]:
        addr, port = w["env"].get("MASTER_ADDR"), w["env"].get("MASTER_PORT", "")
        if addr and port.isdigit():
            addresses.append("[%s]:%s" % (addr, port) if ":" in addr else "%s:%s" % (addr, port))
            if w["run_id"] is None and w["env"].get("RANK") == "0":  # it opens the store
                wanted.add(int(port))
    answer["ports"] = ports(wanted)
    answer["reach"] = reaches(sorted(set(addresses))[:64])
    answer["own"], answer["proxy"] = own_name(), proxy()
    answer["checkpoints"] = len(glob.glob(ask["checkpoints"])) if ask.get("checkpoints") else None
    print(json.dumps(answer))


main()
