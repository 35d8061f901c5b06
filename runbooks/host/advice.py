"""Commands by hand against one limit, and the command that proves afterwards that it helped. Pure."""

from collections.abc import Callable
from shlex import quote
from typing import NamedTuple

from runbooks.core.program import brief
from runbooks.host.evidence import DiskFault, Gauge, Name


class ByHand(NamedTuple):
    """Three commands against one limit."""

    look: str  # what shows who uses it up
    change: str  # the smallest change that gives room
    proof: str  # what has to look otherwise afterwards


def _files(g: Gauge) -> ByHand:
    if g.pid:
        kinds = "awk '{print $NF}' | sed 's/[0-9][0-9]*/N/g' | sort | uniq -c | sort -rn | head"
        return ByHand(f"ls -l /proc/{g.pid}/fd | {kinds}", f"prlimit --pid {g.pid} --nofile={_more(g)}:",
                      f"ls /proc/{g.pid}/fd | wc -l; grep 'open files' /proc/{g.pid}/limits")  # fmt: skip
    most = "for p in /proc/[0-9]*; do echo $(ls $p/fd | wc -l) $p; done 2>/dev/null | sort -rn | head"
    return ByHand(most, f"sysctl -w fs.file-max={_more(g)}", "cat /proc/sys/fs/file-nr")


def _threads(g: Gauge) -> ByHand:
    look = "ps -eo nlwp,pid,user,args --sort=-nlwp | head"
    if g.subject.startswith("cgroup "):
        group = quote(g.subject.removeprefix("cgroup "))
        return ByHand(look, f"echo {_more(g)} > {group}/pids.max   # systemd: set TasksMax={_more(g)} of that unit",
                      f"cat {group}/pids.current {group}/pids.max; grep max {group}/pids.events")  # fmt: skip
    if g.pid:
        return ByHand(look, f"prlimit --pid {g.pid} --nproc={_more(g)}:", f"grep processes /proc/{g.pid}/limits")
    return ByHand(look, f"sysctl -w {g.setting}={_more(g)}", f"cat /proc/loadavg; sysctl {g.setting}")


def _shm(g: Gauge) -> ByHand:
    where = f"/proc/{g.pid}/root/dev/shm" if g.pid else "/dev/shm"  # noqa: S108 - read, never written
    change = f"mount -o remount,size={_more(g)} {where}"
    if g.pid is not None:
        inside = f"nsenter -t {g.pid} -m mount -o remount,size={_more(g)} /dev/shm"
        change = f"{inside}   # loses nothing; a new container needs --shm-size as well"
    return ByHand(f"ls -lS {where} | head; fuser -v {where}/* 2>&1 | head", change, f"df -B1 {where}")


def _inotify(g: Gauge) -> ByHand:
    look = "grep -c inotify /proc/[0-9]*/fdinfo/* 2>/dev/null | grep -v ':0$' | sort -t: -k2 -rn | head"
    return ByHand(look, f"sysctl -w {g.setting}={_more(g)}", f"sysctl {g.setting}")


def _disk(g: Gauge) -> ByHand:
    (how, by), where = ("--inodes", "-nr") if g.of == "inodes" else ("-h", "-hr"), quote(g.subject)
    return ByHand(
        f"du {how} -x -d 2 {where} | sort {by} | head; lsof +L1 | head   # and deleted files that are still open",
        f"du -sh {where.rstrip('/')}/*   # then its owner moves or removes what is not needed; nothing is deleted from here",
        f"df {'-i' if g.of == 'inodes' else '-h'} {where}",
    )


def _locked(g: Gauge) -> ByHand:
    return ByHand(f"grep -E 'VmLck|VmPin' /proc/{g.pid or 'PID'}/status", f"prlimit --pid {g.pid} --memlock=unlimited:unlimited",
                  f"grep 'locked memory' /proc/{g.pid}/limits")  # fmt: skip


AGAINST: dict[str, Callable[[Gauge], ByHand]] = {
    "fd-limit": _files,
    "thread-limit": _threads,
    "shm-too-small": _shm,
    "inotify-limit": _inotify,
    "file-system-full": _disk,
    "limit-locked-memory": _locked,
}


def _more(g: Gauge) -> int:
    return 2 * (g.limit or 0)


def steps(slug: str, g: Gauge) -> tuple[str, ...]:
    """All three, one after the other, each under a line that says what it is."""
    who, by_hand = brief(g.subject), AGAINST[slug](g)
    return (f"# {who}: who uses it up", by_hand.look, f"# {who}: room, once that is understood", by_hand.change,
            f"# {who}: proof afterwards", by_hand.proof)  # fmt: skip


def for_disk(slug: str, f: DiskFault) -> tuple[str, ...]:
    """How a disk or file system that failed is followed up."""
    where = quote(f.subject)
    if slug == "disk-failing":
        return (f"# {f.subject}: what it says", f"smartctl -a {where}", f"# {f.subject}: proof afterwards", f"smartctl -H {where}")
    return (f"# {f.subject}: the kernel's words, and the device", f"dmesg | grep -iE 'ext4|xfs|btrfs|I/O error' | tail; findmnt {where}",
            f"# {f.subject}: proof afterwards", f"findmnt -o TARGET,OPTIONS,FS-OPTIONS {where}")  # fmt: skip


CLOCK = (
    "# on this node, on the asking machine and on a third: which one is off",
    "date -u; chronyc tracking || timedatectl",
    "# proof afterwards: the offset that it prints",
    "chronyc tracking || timedatectl timesync-status",
)


def for_name(n: Name) -> tuple[str, ...]:
    """How a name is followed up."""
    servers = " ".join(f"; dig +time=2 +tries=1 @{s.address} {quote(n.name)}" for s in n.servers)
    look = f"cat /etc/resolv.conf{servers}"
    return (
        f"# {n.name}: which server says what",
        look,
        f"# {n.name}: proof afterwards",
        f"getent ahosts {quote(n.name)}",
    )
