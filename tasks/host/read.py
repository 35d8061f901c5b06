"""Reads what a node uses of its own limits, its clock and whether it resolves the fleet's names. Changes nothing."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from runbooks.core.reading import Absent, Known, Reading, Unknown, UnknownReason
from runbooks.host.evidence import Clock, ClockKeeper, DiskFault, Evidence, Gauge, Name, UnreadItem
from runbooks.parsers.address import is_address
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe, source, unknown
from tasks.transport.base import TransportError

SCAN_S, NAMES_S, NODE_S = 8.0, 6.0, 25.0  # for the processes, for the names, and for both with the connection
MAX_NAMES = 16
SHOWN = 110  # characters of a process
COMMANDS = {
    "files": "cat /proc/sys/fs/file-nr; ls /proc/PID/fd | wc -l; grep 'open files' /proc/PID/limits",
    "threads": "cat /proc/loadavg /proc/sys/kernel/threads-max /proc/sys/kernel/pid_max; cat /sys/fs/cgroup/GROUP/pids.*",
    "locked": "grep -E 'VmLck|VmPin' /proc/PID/status; grep 'locked memory' /proc/PID/limits",
    "shm": "df -B1 /dev/shm /proc/PID/root/dev/shm",
    "inotify": "sysctl fs.inotify; grep -c inotify /proc/PID/fdinfo/*",
    "disks": "df -B1 -l; df -i -l",
}
FAILED = "cat /proc/self/mountinfo /sys/fs/ext4/*/errors_count"
SMART, KEEPER = "smartctl -H /dev/DISK", "timedatectl show -p NTPSynchronized"
OPTIONS = ("--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr")


@diagnostic("limits, disks, clock and names · {context.target}")
def gather_host_limits(context: Context) -> Evidence:
    """The whole look, in one command on the node. Option: `names`."""
    jobs = context.fleet.jobs_on(context.node.name)
    names = names_of(context)
    ask = {
        "match": "|".join(f"(?:{j.match})" for j in jobs), "names": list(names)[:MAX_NAMES],
        "limit_s": SCAN_S, "names_s": NAMES_S, "late_s": context.limit("slow_name_s", "host-limits"),
        "near": context.limit("possible_share", "host-limits"),
    }  # fmt: skip
    before = context.now()
    try:
        got = run_probe(context.host, "host_limits", ask, timeout_s=NODE_S)
    except TransportError as e:
        return _unread(context, e)
    return _parsed(context, got, names, before)


def _base(context: Context) -> dict[str, Any]:
    return {"node": context.node.name, "taken_at": context.now(), "hands_off": context.node.hands_off}


def _unread(context: Context, error: TransportError) -> Evidence:
    no = {name: unknown(context, error, command) for name, command in COMMANDS.items()}
    rest = {"clock": "date -u", "names": "getent ahosts NAME", "failed": FAILED, "smart": SMART, "keeper": KEEPER}
    return Evidence(**_base(context), **no, **{name: unknown(context, error, command) for name, command in rest.items()})


def _parsed(context: Context, got: dict[str, Any], names: dict[str, tuple[str, bool]], before: datetime) -> Evidence:
    unread = [UnreadItem(**u | {"what": _shown(context, u["what"])}) for u in got["unread"]]
    if len(names) > MAX_NAMES:
        unread.append(
            UnreadItem(what=f"{len(names) - MAX_NAMES} more names", reason=UnknownReason.NOT_ASKED, detail="name them alone")
        )
    earlier = _earlier(context)
    gauges: dict[str, Reading[tuple[Gauge, ...]]] = {
        group: Known[tuple[Gauge, ...]](
            value=tuple(_since(_gauge(context, g), earlier) for g in got[group]),
            source=source(context, command),
        )
        for group, command in COMMANDS.items()
    }
    found = tuple(Name(**n, why=names[n["name"]][0], needed=names[n["name"]][1]) for n in got["names"])
    return Evidence(
        **_base(context), **gauges, jobs=got["jobs"], unread=tuple(unread), clock=_clock(context, got, before),
        names=Known[tuple[Name, ...]](value=found, source=source(context, "getent ahosts NAME; cat /etc/resolv.conf")),
        **_disks(context, got), before=earlier.taken_at if earlier else None,
    )  # fmt: skip


def _gauge(context: Context, got: dict[str, Any]) -> Gauge:
    return Gauge(**got | {k: _shown(context, got[k]) for k in ("subject", "setting")})


def _earlier(context: Context) -> Evidence | None:
    """What was read the last time; None where nothing was, or today's code cannot read it."""
    try:
        return Evidence.model_validate(context.earlier["evidence"]) if context.earlier else None
    except ValidationError:
        return None


def _since(gauge: Gauge, earlier: Evidence | None) -> Gauge:
    """With what the earlier look saw refused: 0 of a group that was made since, None of one that it did not look at."""
    was = earlier.threads.value if earlier and isinstance(earlier.threads, Known) else ()
    alike = [g for g in was if g.subject == gauge.subject and g.made and gauge.made]
    before = max((g.refused if g.made == gauge.made and g.refused <= gauge.refused else 0 for g in alike), default=None)
    return gauge.model_copy(update={"refused_before": before}) if before is not None else gauge


def _disks(context: Context, got: dict[str, Any]) -> dict[str, Any]:
    """What failed, what the disks say of themselves, and what keeps the clock."""
    def faults(rows: list[dict[str, str]], command: str) -> Known[tuple[DiskFault, ...]]:
        return Known[tuple[DiskFault, ...]](value=tuple(DiskFault(**r) for r in rows), source=source(context, command))

    smart, keeper = got["smart"], got["kept"]
    return {
        "failed": faults(got["failed"], FAILED),
        "smart": faults(smart["bad"], SMART) if smart["asked"] else Absent(proof=smart["why"], source=source(context, SMART)),
        "keeper": Known[ClockKeeper](value=ClockKeeper(**keeper), source=source(context, KEEPER)) if keeper
        else Absent(proof="the kernel does not say", source=source(context, KEEPER)),
    }  # fmt: skip


def _shown(context: Context, text: str) -> str:
    """Without secrets, and then short: half a secret is one as well."""
    text = context.redactor.text(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…)"


def _clock(context: Context, got: dict[str, Any], before: datetime) -> Reading[Clock]:
    """The node read its clock twice between our two readings: the difference lies in between, whatever the way took."""
    at = source(context, "date -u")
    least, most = got["ended"] - context.now().timestamp(), got["began"] - before.timestamp()
    if least > most:
        return Unknown(reason=UnknownReason.FAILED, detail="a clock was set while it was read", source=at)
    return Known[Clock](value=Clock(least_s=round(least, 2), most_s=round(most, 2)), source=at)


def names_of(context: Context) -> dict[str, tuple[str, bool]]:
    """Name -> who uses it, and whether this node has to know it; addresses are no names."""
    found: dict[str, tuple[str, bool]] = {}
    for text, why, must in _uses(context):
        name = host_of(text)
        if name and not is_address(name):
            found.setdefault(name, (why, must))
    return found


def _uses(context: Context) -> Iterator[tuple[str, str, bool]]:
    """(host, host:port or URL, who uses it, whether this node needs it): what this node surely asks first."""
    fleet, node = context.fleet, context.node.name
    given = context.options.get("names", "")
    for name in given if isinstance(given, list | tuple) else str(given).split(","):
        yield str(name), "the option `names`", True
    for launch in fleet.launches:
        if node in launch.nodes:
            argv = [part for word in launch.command for part in word.split("=", 1)]
            for option, value in pairwise(argv):
                if option in OPTIONS:
                    yield value, f"launch {launch.name}", True
            yield launch.env.get("MASTER_ADDR", ""), f"launch {launch.name}", True
    for place in fleet.rendezvous:
        must = node in place.named_nodes()
        for endpoint in place.endpoints:
            yield endpoint, f"endpoint of rendezvous {place.name}", must
    for system in fleet.systems:
        yield system.url, f"system {system.name}", False
    for other in fleet.nodes:
        yield other.host or "", f"address of node {other.name}", False


def host_of(text: str) -> str:
    """The host of `host`, `host:port` or a URL; "" if there is none."""
    text = text.strip()
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        return ""
