"""Commands by hand against one limit, and the command that proves afterwards that it helped. Pure."""

from shlex import quote

from runbooks.host.evidence import DiskFault, Gauge, Name


def look(slug: str, g: Gauge) -> str:
    """What shows who uses it up."""
    p = g.pid or "PID"
    return {
        "fd-limit": f"ls -l /proc/{p}/fd | awk '{{print $NF}}' | sed 's/[0-9][0-9]*/N/g' | sort | uniq -c | sort -rn | head"
        if g.pid
        else "for p in /proc/[0-9]*; do echo $(ls $p/fd | wc -l) $p; done 2>/dev/null | sort -rn | head",
        "thread-limit": "ps -eo nlwp,pid,user,args --sort=-nlwp | head",
        "shm-too-small": f"ls -lS {_shm(g)} | head; fuser -v {_shm(g)}/* 2>&1 | head",
        "inotify-limit": "grep -c inotify /proc/[0-9]*/fdinfo/* 2>/dev/null | grep -v ':0$' | sort -t: -k2 -rn | head",
        "file-system-full": _du(g),
        "limit-locked-memory": f"grep -E 'VmLck|VmPin' /proc/{p}/status",
    }[slug]


def _du(g: Gauge) -> str:
    how, by = ("--inodes", "-nr") if g.of == "inodes" else ("-h", "-hr")
    return f"du {how} -x -d 2 {quote(g.subject)} | sort {by} | head; lsof +L1 | head   # and deleted files that are still open"


def change(slug: str, g: Gauge) -> str:
    """The smallest change that gives room."""
    more = 2 * (g.limit or 0)
    if slug == "fd-limit":
        return f"prlimit --pid {g.pid} --nofile={more}:" if g.pid else f"sysctl -w fs.file-max={more}"
    if slug == "thread-limit":
        if g.subject.startswith("cgroup "):
            return f"echo {more} > {_group(g)}/pids.max   # systemd: set TasksMax={more} of that unit"
        return f"prlimit --pid {g.pid} --nproc={more}:" if g.pid else f"sysctl -w {g.setting}={more}"
    if slug == "inotify-limit":
        return f"sysctl -w {g.setting}={more}"
    if slug == "file-system-full":
        return f"du -sh {quote(g.subject)}/*   # then its owner moves or removes what is not needed; nothing is deleted from here"
    if slug == "limit-locked-memory":
        return f"prlimit --pid {g.pid} --memlock=unlimited:unlimited"
    if g.pid is None:
        return f"mount -o remount,size={more} {_shm(g)}"
    return f"nsenter -t {g.pid} -m mount -o remount,size={more} /dev/shm   # loses nothing; a container made anew needs --shm-size as well"


def proof(slug: str, g: Gauge) -> str:
    """What has to look otherwise afterwards."""
    if slug == "fd-limit":
        if g.pid is None:
            return "cat /proc/sys/fs/file-nr"
        return f"ls /proc/{g.pid}/fd | wc -l; grep 'open files' /proc/{g.pid}/limits"
    if slug == "thread-limit":
        if g.subject.startswith("cgroup "):
            return f"cat {_group(g)}/pids.current {_group(g)}/pids.max; grep max {_group(g)}/pids.events"
        return f"grep processes /proc/{g.pid}/limits" if g.pid else f"cat /proc/loadavg; sysctl {g.setting}"
    if slug == "inotify-limit":
        return f"sysctl {g.setting}"
    if slug == "file-system-full":
        return f"df {'-i' if g.of == 'inodes' else '-h'} {quote(g.subject)}"
    return f"grep 'locked memory' /proc/{g.pid}/limits" if slug == "limit-locked-memory" else f"df -B1 {_shm(g)}"


def _group(g: Gauge) -> str:
    return quote(g.subject.removeprefix("cgroup "))


def _shm(g: Gauge) -> str:
    return f"/proc/{g.pid}/root/dev/shm" if g.pid else "/dev/shm"  # noqa: S108 - read, never written


def steps(slug: str, g: Gauge) -> tuple[str, ...]:
    """All three, one after the other, each under a line that says what it is."""
    who = short(g.subject)
    return (f"# {who}: who uses it up", look(slug, g), f"# {who}: room, once that is understood", change(slug, g),
            f"# {who}: proof afterwards", proof(slug, g))  # fmt: skip


def short(subject: str) -> str:
    """A process without its command line."""
    return subject.partition(" (")[0]


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
