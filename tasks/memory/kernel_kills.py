"""Reads the kernel's kills for memory on a node: its log, else its counters against those of the last sweep. Changes nothing."""

from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from runbooks.core.reading import Absent, Known, Reading, Unknown, UnknownReason
from runbooks.core.times import utc
from runbooks.memory.evidence import Evidence, HostMemory, MemoryGroup
from runbooks.memory.parsers.kernel_ooms import WANTED, HostOom, parse_host_ooms
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe, source, unknown
from tasks.transport.base import TransportError

Kills = Reading[tuple[HostOom, ...]]
COMMAND = f"dmesg | grep -iE '{WANTED}'"
COUNTER = "grep oom_kill /proc/vmstat"
AT_BOOT_S = 5.0  # a log that begins by then has lost nothing
MOST_GROUPS = 64  # that the probe lists


@diagnostic("processes killed by the kernel · {context.target}")
def read_kills(context: Context, host: HostMemory | None) -> tuple[Kills, datetime | None]:
    """The kills, and how far back the kernel log reaches (None: it was not read, or carries no times)."""
    try:
        got = run_probe(context.host, "kernel", {"match": WANTED, "cap": 400}, timeout_s=25)
    except TransportError as e:
        return unknown(context, e, COMMAND), None
    if not got["tool"]:
        said = "; ".join(f"{t['tool']}: {t['said'] or 'no lines'}" for t in got["tried"])
        no = Unknown(reason=UnknownReason.DENIED if got["denied"] else UnknownReason.FAILED, detail=f"no kernel log ({said})",
            source=source(context, COMMAND))
        return _counted(context, host) or _with_count(no, host), None
    zero, begins = got["zero"], got["begins"]
    log_from = None if begins is None else datetime.fromtimestamp(zero + (0.0 if begins < AT_BOOT_S else begins), UTC)
    found = parse_host_ooms(got["lines"], zero)
    if not found and begins is not None and begins >= AT_BOOT_S and context.since and log_from and log_from > context.since:
        no = Unknown(reason=UnknownReason.FAILED,
            detail=f"the kernel log begins at {utc(log_from)}: what came before is lost",
                     source=source(context, COMMAND))  # fmt: skip
        return _counted(context, host) or _with_count(no, host), log_from
    if not found:
        since = "boot" if (begins or 0.0) < AT_BOOT_S else f"its log begins, {begins:.0f} s after boot"
        return Absent(proof=f"the kernel killed nothing for memory since {since}", source=source(context, COMMAND)), log_from
    return Known[tuple[HostOom, ...]](value=found, source=source(context, COMMAND)), log_from


def _counted(context: Context, host: HostMemory | None) -> Absent | None:
    """Proof by the machine's own count of kills since boot, which every user may read: it is 0, or what it was at the last sweep."""
    if host is None or host.kills is None:
        return None
    if host.kills == 0:
        return Absent(proof="the kernel killed nothing for memory since boot, by its own count", source=source(context, COUNTER))
    before = _last(context)
    then = before.host.value if before and isinstance(before.host, Known) else None
    if before is None or then is None or not host.boot or then.boot != host.boot or then.kills != host.kills:
        return None
    proof = f"the kernel killed nothing for memory since {utc(before.taken_at)}: its own count is {host.kills} still"
    return Absent(proof=proof, source=source(context, COUNTER))


def _with_count(no: Unknown, host: HostMemory | None) -> Unknown:
    if host is None or not host.kills:
        return no
    return no.model_copy(update={"detail": f"{host.kills} killed for memory since boot, when and which is not known: {no.detail}"})


def with_new_kills(context: Context, groups: tuple[MemoryGroup, ...], boot: str) -> tuple[MemoryGroup, ...]:
    """In a sweep the groups with what their counts grew by since the last one; a group that was not named then had none."""
    before = _last(context)
    if before is None or not isinstance(before.groups, Known) or len(before.groups.value) >= MOST_GROUPS:
        return groups
    same = isinstance(before.host, Known) and before.host.value.boot == boot != ""
    then = {g.path: g.kills for g in before.groups.value} if same else {}
    return tuple(g.model_copy(update={"new_kills": _grown(g.kills, then.get(g.path, 0))}) for g in groups)


def _grown(now: int, then: int) -> int:
    """A count below its last one is another group's of the same name."""
    return now - then if now >= then else now


def _last(context: Context) -> Evidence | None:
    """The last sweep's reading; None by hand, for a first sweep, or where today's code cannot read it."""
    data: Any = (context.earlier or {}).get("evidence") if context.since else None
    try:
        return Evidence.model_validate(data) if data else None
    except ValidationError:
        return None
