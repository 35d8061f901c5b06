"""Commands by hand against one limit, and the command that proves afterwards that it helped. Pure."""

from runbooks.host_limits.evidence import Gauge, Name


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
        "limit-locked-memory": f"grep -E 'VmLck|VmPin' /proc/{p}/status",
    }[slug]


def change(slug: str, g: Gauge) -> str:
    """The smallest change that gives room."""
    more = 2 * (g.limit or 0)
    if slug == "fd-limit":
        return f"prlimit --pid {g.pid} --nofile={more}:" if g.pid else f"sysctl -w fs.file-max={more}"
    if slug == "thread-limit":
        if g.subject.startswith("cgroup "):
            return f"echo {more} > {g.subject[7:]}/pids.max   # systemd: set TasksMax={more} of that unit"
        return f"prlimit --pid {g.pid} --nproc={more}:" if g.pid else f"sysctl -w {g.setting}={more}"
    if slug == "inotify-limit":
        return f"sysctl -w {g.setting}={more}"
    if slug == "limit-locked-memory":
        return f"prlimit --pid {g.pid} --memlock=unlimited:unlimited"
    return (
        f"mount -o remount,size={more} {_shm(g)}" if g.pid is None else "docker run --shm-size=8g …   # a new container"
    )


def proof(slug: str, g: Gauge) -> str:
    """What has to look otherwise afterwards."""
    if slug == "fd-limit":
        if g.pid is None:
            return "cat /proc/sys/fs/file-nr"
        return f"ls /proc/{g.pid}/fd | wc -l; grep 'open files' /proc/{g.pid}/limits"
    if slug == "thread-limit":
        if g.subject.startswith("cgroup "):
            return f"cat {g.subject[7:]}/pids.current {g.subject[7:]}/pids.max; grep max {g.subject[7:]}/pids.events"
        return f"grep processes /proc/{g.pid}/limits" if g.pid else f"cat /proc/loadavg; sysctl {g.setting}"
    if slug == "inotify-limit":
        return f"sysctl {g.setting}"
    return f"grep 'locked memory' /proc/{g.pid}/limits" if slug == "limit-locked-memory" else f"df -B1 {_shm(g)}"


def _shm(g: Gauge) -> str:
    return f"/proc/{g.pid}/root/dev/shm" if g.pid else "/dev/shm"  # noqa: S108 - read, never written


def steps(slug: str, g: Gauge) -> str:
    """All three, one after the other."""
    return f"{g.subject}: look: {look(slug, g)} — give room: {change(slug, g)} — proof: {proof(slug, g)}"


CLOCK = "date -u on this node, on the asking machine and on a third; chronyc tracking || timedatectl — proof: chronyc tracking"


def for_name(n: Name) -> str:
    """How a name is followed up."""
    servers = " ".join(f"; dig +time=2 +tries=1 @{s.address} {n.name}" for s in n.servers)
    return f"{n.name}: cat /etc/resolv.conf{servers} — proof: getent ahosts {n.name}"
