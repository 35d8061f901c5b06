"""`gpu-runbooks logs TARGET`: what the orchestrator and its workers logged, wherever it stands, in the order of time."""

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deployments.cli.logs_follow import Follower
from deployments.cli.logs_shown import NOTHING, LogsPage, page_data, page_lines, source_lines
from deployments.cli.logs_summary import cycle_data, decision_lines, summary_data, summary_lines
from deployments.errors import CommandError
from runbooks.core.names import there_are
from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead
from runbooks.parsers.logs.merge import in_window, merged, wanted
from runbooks.parsers.logs.summary import cycles_at, summarized

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet
    from runbooks.core.redact import Redactor
    from tasks.clients.logs.places import Opened
    from tasks.clients.logs.source import LogSource, LogWindow
    from tasks.transport.open import HostPool

ORCHESTRATOR, WORKER = "orchestrator", "worker/"
AROUND = timedelta(minutes=15)  # of --at: the longest cycle that is looked for
FUTURE = timedelta(minutes=5)  # clocks are never quite alike


class Asked(NamedTuple):
    """What a person asks for."""

    files: tuple[Path, ...]
    fleet: bool  # also what the fleet file names
    worker: str


def cmd_logs(ns: argparse.Namespace) -> int:
    """0: each source was read whole. 1: not each. 3: nothing could be read, or nothing of the time of --at."""
    asked = _asked(ns)
    if ns.since and ns.until and ns.since > ns.until:
        raise CommandError("--since is later than --until")
    if ns.follow and (ns.until or ns.at):
        raise CommandError("--follow continues from now: it takes no --until and no --at")
    from deployments.cli.missing_secrets import check_secrets
    from flows.config import load_fleet
    from tasks.clients.logs.places import knowing
    from tasks.clients.logs.source import LogWindow
    from tasks.installation import installation_redactor
    from tasks.transport.open import HostPool

    with HostPool() as hosts:
        fleet = load_fleet(ns.fleet)
        if asked.fleet:
            check_secrets(fleet, ns.fleet)
        redactor = installation_redactor()
        redactor = knowing(fleet.orchestrator, redactor) if fleet.orchestrator else redactor
        since, until = (ns.at - AROUND, ns.at + AROUND) if ns.at else (ns.since, ns.until)
        sources = _sources(ns.shape, fleet, asked, hosts, redactor)
        found = read_all(sources, LogWindow(since, until, ns.follow), ns.seconds)

        def fits(event: LoggedEvent) -> bool:
            return wanted(event, since, until, asked.worker, ns.task)

        now = datetime.now(UTC)
        events = [e for e in merged(e for g in found for e in g.events) if fits(e)]
        page = LogsPage([_judged(in_window(g.read, since), now) for g in found], events, ns.lines, redactor.text)
        if not ns.follow:
            return _show_at(page, ns.at, ns.json) if ns.at else _show(page, ns.json)
        print(json.dumps(page_data(page)) if ns.json else "\n".join(page_lines(page)), flush=True)
        left = [g.source for g in found if g.source is not None]
        if not left:
            return page.code
        Follower(left, fits, redactor.text, ns.json).follow()
    return page.code


def _show(page: LogsPage, as_json: bool) -> int:
    summary = summarized(page.events)
    if as_json:
        print(json.dumps(page_data(page) | {"summary": summary_data(summary, page.redact)}, indent=1))
        return page.code
    for line in page_lines(page):
        print(line)
    told = list(summary_lines(summary, page.redact))
    print("\n".join(["", *told]) if told else "", end="\n" if told else "")
    return page.code


def _show_at(page: LogsPage, at: datetime, as_json: bool) -> int:
    """Why it did what it did at that time. 3 where no cycle of that time was read."""
    cycles = cycles_at(summarized(page.events), at)
    code = page.code if cycles else NOTHING
    if as_json:
        told = {"at": at.isoformat(), "cycles": [cycle_data(c, page.redact) for c in cycles]}
        print(json.dumps({**page_data(page), "exit_code": code, "events": [], **told}, indent=1))
        return code
    for line in (*source_lines(page), "", *decision_lines(cycles, at, page.redact)):
        print(line)
    return code


def _asked(ns: argparse.Namespace) -> Asked:
    files, fleet, worker = [], False, ns.worker
    for target in ns.target:
        if target == ORCHESTRATOR:
            fleet = True
        elif target.startswith(WORKER) and len(target) > len(WORKER):
            if worker not in ("", target[len(WORKER) :]):
                raise CommandError(f"{target}: --worker names another worker")
            fleet, worker = True, target[len(WORKER) :]
        else:
            files.append(_file(target))
    return Asked(tuple(files), fleet, worker)


def _file(target: str) -> Path:
    from tasks.whole_file import beside

    path = Path(target)
    try:
        path.lstat()
    except (OSError, ValueError) as e:
        near = beside(path, any_kind=True) if isinstance(e, FileNotFoundError) else ""
        why = getattr(e, "strerror", None) or e
        raise CommandError(f"{target}: {why}{near}; a target is `{ORCHESTRATOR}`, `{WORKER}ID` or a log file") from None
    return path


def _sources(shape: str, fleet: "Fleet", asked: Asked, hosts: "HostPool", redactor: "Redactor") -> "list[Opened]":
    from runbooks.core.logs_config import LogSources
    from tasks.clients.logs.places import named_files, orchestrator_logs, worker_logs

    config = fleet.orchestrator
    sources = config.log_sources if config else LogSources()
    known = {ORCHESTRATOR, "worker", *sources.shapes}
    if shape not in known:
        raise CommandError(f"--shape {shape[:40]!r}: {there_are(shape, sorted(known))}")
    found = named_files(asked.files, shape, sources)
    if asked.fleet:
        if config is None:
            raise CommandError("no orchestrator is known: the fleet file has no section `orchestrator` (--fleet FILE)")
        found += orchestrator_logs(fleet, config, hosts, redactor)
        found += worker_logs(config, asked.worker, hosts, redactor) if asked.worker else []
        if not found:
            raise CommandError("the fleet file names no log: give orchestrator.railway, or files or a table in orchestrator.log_sources")
    return found


class Got(NamedTuple):
    """What one source gave; `source` is None where it could not be asked at all."""

    source: "LogSource | None"
    events: list[LoggedEvent]
    read: SourceRead


def read_all(sources: "Sequence[Opened]", window: "LogWindow", seconds: float) -> list[Got]:
    """All at once, in the order given. One that has not ended within `seconds` is not read."""
    late = f"timed out: it was not read within {seconds:g} s (--seconds)"
    found = [Got(None, [], SourceRead(name=n, place=p, state=ReadState.NOT_READ, why=late)) for n, p, _ in sources]

    def work(at: int) -> Callable[[], None]:
        def one() -> None:
            found[at] = _read_one(sources[at], window)

        return one

    threads = [threading.Thread(target=work(at), daemon=True) for at in range(len(sources))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return list(found)


def _read_one(one: "Opened", window: "LogWindow") -> Got:
    from runbooks.core.reading import ODD_ANSWER
    from tasks.clients.logs.places import opened
    from tasks.clients.logs.source import read_source
    from tasks.transport.base import TransportError

    name, place, _ = one
    try:
        source = opened(one)
        if isinstance(source, TransportError):
            return Got(None, [], SourceRead(name=name, place=place, state=ReadState.NOT_READ, why=source.why))
        return Got(source, *read_source(source, window))
    except (*ODD_ANSWER, OSError) as e:
        why = f"unparsable: its answer has a form that is not known ({type(e).__name__})"
        return Got(None, [], SourceRead(name=name, place=place, state=ReadState.NOT_READ, why=why))


def _judged(read: SourceRead, now: datetime) -> SourceRead:
    if read.last is None or read.last <= now + FUTURE:
        return read
    return read.model_copy(update={"notes": (*read.notes, "lines are stamped in the future: a clock or a zone is wrong")})
