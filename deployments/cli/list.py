"""The commands that need no server: list, replay, run --no-server."""

import contextlib
import json
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.errors import CommandError
from deployments.paths import home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runbooks.core.replay import Replayed
    from runbooks.core.report import Report


def cmd_list(ns: Namespace) -> int:
    """Prints every runbook; or one with options and what it may change; or every kind of action."""
    from deployments.cli.display import show_lines, show_table
    from deployments.cli.runbook_words import in_full, in_kinds, in_nightly, in_short, kind_rows
    from runbooks.core.catalog import runbook_heads

    heads = runbook_heads()
    chosen = [the_head(ns.runbook, heads)] if ns.runbook else list(heads)
    if ns.actions:
        print(json.dumps(kind_rows(chosen), indent=1)) if ns.json else show_lines(in_kinds(chosen).splitlines())
    elif ns.json:
        print(json.dumps([h | {"nightly": in_nightly(h["slug"])} for h in chosen], indent=1))
    else:
        show_lines(in_full(chosen[0]).splitlines()) if ns.runbook else show_table(in_short(chosen), headed=False)
    return 0


def the_head(slug: str, heads: "Sequence[dict[str, Any]]") -> "dict[str, Any]":
    """That runbook's. Raises CommandError with the nearest name."""
    from runbooks.core.names import there_are

    found = {h["slug"]: h for h in heads}
    if slug not in found:
        raise CommandError(f"no runbook {slug!r}; {there_are(slug, found)}")
    return found[slug]


def cmd_replay(ns: Namespace) -> int:
    """Judges an old report's evidence with today's code; exit code as the new judgment says."""
    from runbooks.core.replay import ReplayError, replay
    from runbooks.core.verdict import State

    try:
        again = replay(_read_json(ns.report))
    except ReplayError as e:
        raise CommandError(f"{ns.report}: {e}") from e
    if ns.json:
        print(json.dumps(again.model_dump(mode="json") | {"same": again.same}, indent=1))
    else:
        _print_replay(again)
    return {State.UNHEALTHY: 1, State.CANNOT_TELL: 3}.get(again.now.state, 0)


LARGEST_REPORT = 256 << 20


def _read_json(path: str) -> Any:
    from tasks.whole_file import read_whole

    try:
        return json.loads(read_whole(path, LARGEST_REPORT).decode("utf-8"))
    except OSError as e:
        raise CommandError(f"{path}: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise CommandError(f"{path}: not UTF-8 text") from e
    except json.JSONDecodeError as e:
        hint = "; give the .json file of the report, not the .md" if path.endswith(".md") else ""
        raise CommandError(f"{path}: line {e.lineno}: not JSON: {e.msg}{hint}") from e
    except ValueError as e:
        raise CommandError(f"{path}: not JSON: {e}") from e
    except RecursionError as e:
        raise CommandError(f"{path}: nested too deep to be a report") from e


def _print_replay(again: "Replayed") -> None:
    from runbooks.core.clean import one_line

    then = again.recorded
    print(f"{again.runbook} on {one_line(again.target)}, report {one_line(again.id)}")
    print(f"then: {then.state.value + ': ' + one_line(then.headline) if then else 'recorded in another form'}")
    print(f"now:  {again.now.state.value}: {one_line(again.now.headline)}")
    for cause in again.now.causes:
        print(f"  {cause.certainty.value}: {cause.slug} ({one_line(cause.subject)})")
        for line in cause.evidence:
            print(f"    {one_line(line)}")
    print("same state, causes and plans as then" if again.same else "NOT the same as then")
    for note in again.notes:
        print(f"note: {one_line(note)}")


def cmd_run_no_server(ns: Namespace) -> int:
    """Reads, judges and reports; refuses any mode that could change something."""
    if ns.mode != "diagnose":
        raise CommandError(f"--no-server only diagnoses; --mode {ns.mode} needs the server (leave out --no-server)")
    from deployments.cli.facts import report_fault
    from deployments.cli.missing_secrets import check_secrets
    from deployments.cli.run_offline import run_offline
    from deployments.cli.run_options import check_options, parse_options
    from deployments.reports import check_place
    from flows.config import load_fleet, load_policy, with_target
    from flows.specs import NoSuchRunbook, load_spec

    try:
        spec = load_spec(ns.runbook)
    except NoSuchRunbook as e:
        raise CommandError(str(e)) from e
    load_policy(ns.policy)  # a wrong file is an error here too, though nothing will act
    found = load_fleet(ns.fleet)
    fleet, target = with_target(found, ns.target, bool(ns.fleet), spec.targets(found))
    check_secrets(found, ns.fleet)
    folder = home(ns.out).absolute() if ns.out else own_reports(fleet.reports.folder)
    check_place(folder, fleet)
    report, fault = run_offline(spec, fleet, target, folder, options=check_options(ns.runbook, parse_options(ns.option)))
    code = finish(report, folder, fleet.reports.keep, ns.json)
    return report_fault(fault) if fault else code


def own_reports(folder: str) -> Path:
    """The folder that the server's runs use too: earlier readings are found there, whoever made them."""
    from deployments.state import state_dir
    from tasks.report_store import reports_root

    with contextlib.suppress(OSError):  # no home that can be written: the working folder then
        os.environ.setdefault("GPU_RUNBOOKS_HOME", str(state_dir()))
    return reports_root(folder)


def finish(report: "Report", folder: Path, keep: int, as_json: bool) -> int:
    """Saves and prints a report. Where it cannot be saved it is printed whole, so that nothing is lost."""
    import sys

    from deployments.cli.display import show_page
    from runbooks.core.knowledge import load_runbook
    from runbooks.core.render import render
    from tasks.report_store import save, to_json

    markdown = render(report, load_runbook(report.runbook))
    saved = save(report, markdown, folder, keep=keep)
    for problem in saved.problems:
        print(f"gpu-runbooks: {problem}", file=sys.stderr)
    if as_json:
        print(json.dumps(json.loads(to_json(report)), indent=1))  # ASCII: exact, and no code for a terminal
    elif saved.problems:
        show_page(markdown, report.outcome)
    else:
        print_summary(report, saved.markdown, saved.record)
    return report.outcome.exit_code


def print_summary(report: "Report", page: Path | None, record: Path | None) -> None:
    """The lines a person needs on the terminal, and where the report is."""
    from deployments.cli.summary import show_summary

    show_summary(report)
    print(f"report: {page}\n        {record}")
