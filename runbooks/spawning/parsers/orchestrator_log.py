"""Lines of the orchestrator's and a worker's log into what they say. Pure.

Cycles, promotions, starts and lines about one worker are marks of that program's own log, read here; what went wrong is
judged by the knowledge base.
"""

import re
from datetime import UTC, datetime

from runbooks.core.base import Frozen
from runbooks.triage.closing import closing_error
from runbooks.triage.text import error_lines, judge_text

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?")


class OrchestratorLog(Frozen):
    """What the orchestrator's own log shows."""

    lines: int
    last_cycle: datetime | None = None
    cycles: int = 0
    promoted: tuple[str, ...] = ()  # lines
    worker: tuple[str, ...] = ()  # lines that name the worker
    ssh_failed: tuple[str, ...] = ()
    key_refused: tuple[str, ...] = ()  # those of them that speak of the key
    started: tuple[str, ...] = ()  # "startup completed" of the worker
    database_failed: tuple[str, ...] = ()
    no_capacity: tuple[str, ...] = ()
    out_of_credit: tuple[str, ...] = ()
    step_failed: tuple[str, ...] = ()  # with what its words about the worker end, where that is an error it did not get past


def line_time(line: str) -> datetime | None:
    """The first time stamp in a line; without a zone it is UTC."""
    found = _TIME.search(line)
    if not found:
        return None
    zone = (found[3] or "Z").replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone(UTC)
    except ValueError:
        return None


def _lines_about(lines: list[str], *names: str) -> tuple[str, ...]:
    """The first and last lines that say one of these causes, by the knowledge base."""
    return tuple(line.text for cause in judge_text(lines, only=names) for line in cause.evidence)


def parse_orchestrator_log(text: str, worker: str) -> OrchestratorLog:
    """The log as a whole; `worker` picks the lines about it."""
    lines = [line.strip()[:400] for line in text.splitlines() if line.strip()]
    cycles = [line for line in lines if "ORCHESTRATOR CYCLE" in line.upper()]
    times = [t for t in map(line_time, cycles) if t]

    def pick(pattern: str, among: list[str]) -> tuple[str, ...]:
        return tuple(line for line in among if re.search(pattern, line, re.I))[-5:]

    mine = [line for line in lines if worker and worker in line]
    named = {
        "ssh_failed": _lines_about(mine, "ssh", "ssh-auth-failure", "stuck-spawning/ssh-key-wrong"),
        "database_failed": _lines_about(lines, "stuck-spawning/database-writes-fail", "stuck-spawning/database-unreadable"),
        "no_capacity": _lines_about(lines, "stuck-spawning/no-capacity", "stuck-spawning/host-gpus-taken"),
        "out_of_credit": _lines_about(lines, "stuck-spawning/out-of-credit"),
    }
    return OrchestratorLog(
        lines=len(lines),
        last_cycle=max(times) if times else None,
        cycles=len(cycles),
        promoted=pick(r"promoted", mine),
        worker=tuple(mine[-20:]),
        **named,
        key_refused=_lines_about(mine, "ssh-auth-failure/publickey-denied", "stuck-spawning/ssh-key-wrong"),
        started=pick(r"startup completed|start_worker_process.*ok", mine),
        step_failed=_step_failed(lines, worker, [line for told in named.values() for line in told]),
    )  # fmt: skip


SAME = 60  # characters by which a line is found again
_PAST = re.compile(r"promoted|startup completed|start_worker_process.*ok", re.I)


def _step_failed(lines: list[str], worker: str, named: list[str]) -> tuple[str, ...]:
    """The error with which its lines about the worker end, without lines that are `named` otherwise; () where it got past it."""
    own = _about(lines, worker)
    past = max((i for i, line in enumerate(own) if worker in line and _PAST.search(line)), default=-1)
    said = [_TIME.sub("", line, count=1).strip() for line in own[past + 1 :]]  # a time makes no kind of line
    return tuple(x for x in closing_error(said) if not any(x[:SAME] in line for line in named))[-6:]


def _about(lines: list[str], worker: str) -> list[str]:
    """Lines that name the worker, and what follows each until a line is about the cycle or another worker."""
    own: list[str] = []
    alike, mine = _shape(worker), False
    for line in lines:
        if worker and worker in line:
            mine = True
        elif "ORCHESTRATOR CYCLE" in line.upper() or alike is None or alike.search(line):
            mine = False
        own += [line] if mine else []
    return own


def _shape(worker: str) -> re.Pattern[str] | None:
    """What ids of other workers look like: the same beginning and the same marks between letters and digits. None: too short to tell."""
    parts = re.split(r"([^A-Za-z0-9]+)", worker)
    if len(parts) < 3:
        return None
    return re.compile(re.escape(parts[0]) + "".join(re.escape(p) if i % 2 == 0 else r"\w+" for i, p in enumerate(parts[1:])))


def last_words(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines with which a worker's log says why it ended, by the knowledge base."""
    return error_lines(lines)[-3:]
