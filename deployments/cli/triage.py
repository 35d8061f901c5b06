"""`gpu-runbooks triage FILE… | -`: what a text points to. No server, no network, no Prefect."""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deployments.cli.terminal import rewrite
from deployments.cli.words import Parser
from runbooks.core.clean import one_line
from runbooks.core.names import there_are
from runbooks.core.redact import Redactor
from runbooks.triage.block import Block, is_code, unread_code, without_comments
from runbooks.triage.folder import files_below
from runbooks.triage.sources import blocks, stream_blocks
from runbooks.triage.unpack import SourceError
from tasks.whole_file import beside

EPILOG = """exit codes:
  1  candidate(s) found, each with the check that decides
  2  bad usage, or nothing could be read
  3  no candidate: nothing known, only benign lines, or not enough to tell (it never says that all is well)

facts that are not in the text: --fact exit_code=137 --fact oom_killed=false --fact gpu_util=100
"""


def main(args: list[str]) -> int:
    """The command. Returns the exit code."""
    gc.disable()  # until the knowledge is loaded: nothing of it is ever garbage
    try:
        return _command(args)
    finally:
        gc.enable()


def _command(args: list[str]) -> int:
    try:
        given = _parser().parse_args(args)
    except SystemExit as e:
        return int(e.code or 0)
    if given.facts:
        return _list_facts()
    facts, bad = _facts(given.fact)
    bad = bad or _unknown_facts(facts)
    if bad or not (given.files or facts):
        print(f"triage: {bad or 'give a FILE, - for standard input, or --fact'}", file=sys.stderr)
        return 2
    return _answer(given, facts)


def _parser() -> Parser:
    parser = Parser(
        prog="gpu-runbooks triage",
        description="Finds the causes in a log, traceback, alert, command output or support bundle. Shows the causes in order, "
        "their lines, what would decide, what not to do, and which runbook to run. Reads text, gz, zst, tar, journald JSON, "
        "alerts and folders.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="file or folder; - is standard input")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on stdout")
    parser.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE", help="a fact that is not in the text"
    )
    parser.add_argument("--facts", action="store_true", help="list the names of all facts, and exit")
    parser.add_argument("--progress", action="store_true", help="show progress on stderr even without a terminal")
    return parser


def _list_facts() -> int:
    from runbooks.triage.load import library

    for name, fact in library().facts.items():
        print(f"{name:<18} {fact.kind:<8} {fact.about}")
    return 0


def _unknown_facts(facts: dict[str, str]) -> str:
    """What is wrong with the names; no condition would ever look at a misspelt one."""
    from runbooks.triage.load import library

    known = library().facts if facts else {}
    wrong = [n for n in facts if n.strip().lower().replace("-", "_").replace(" ", "_") not in known]
    return f"no fact {', '.join(wrong)}; {there_are(wrong[0], known)}" if wrong else ""


def _facts(given: list[str]) -> tuple[dict[str, str], str]:
    pairs = [f.partition("=") for f in given]
    bad = [f"--fact {''.join(p)}: expected NAME=VALUE" for p in pairs if not (p[0].strip() and p[1])]
    return {name: value for name, _, value in pairs}, "; ".join(bad)


def _answer(given: argparse.Namespace, facts: dict[str, str]) -> int:
    from runbooks.triage.judge import judge
    from runbooks.triage.load import library
    from runbooks.triage.render import render

    library()
    gc.enable()
    notes: list[str] = []
    read_any: set[str] = set()
    shown = ProgressLine(given.progress or sys.stderr.isatty(), _total(given.files))
    found = _blocks(given.files, notes, read_any, shown)
    try:
        outcome = judge(found, facts, Redactor(os.urandom(32)).text, notes)
    except ValueError as e:
        print(f"triage: {e}", file=sys.stderr)
        return 2
    finally:
        shown.end()
    if given.files and not read_any:
        print("triage: nothing could be read: " + "; ".join(notes), file=sys.stderr)
        return 2
    outcome = outcome.model_copy(update={"notes": tuple(notes)})
    print(json.dumps(outcome.data(), indent=2) if given.json else render(outcome), end="\n" if given.json else "")
    return outcome.exit_code


def _blocks(names: list[str], notes: list[str], read_any: set[str], shown: "ProgressLine") -> Iterator[Block]:
    """Blocks of everything named; what cannot be read becomes a note."""
    empty: list[str] = []
    for name in names:
        code = 0
        paths, left_out = _paths(name)
        notes.extend(left_out)
        for one in paths:
            label = "stdin" if one is None else _label(one, Path(name))
            inside = one is not None and one != Path(name)
            if inside and is_code(label):
                code += 1
                continue
            try:
                source = (
                    stream_blocks(sys.stdin.buffer, label, shown.add) if one is None else blocks(one, label, shown.add)
                )
                for block in source:
                    read_any.add(label)
                    yield without_comments(block) if inside else block
                if label not in read_any and (one is None or one.stat().st_size == 0):
                    read_any.add(label)
                    empty.append(label)
            except SourceError as e:
                near = beside(one, any_kind=True) if one and isinstance(e.__cause__, FileNotFoundError) else ""
                notes.append(f"{e}{near}")
        if code:
            notes.append(f"{name}: {unread_code(code)}")
    if empty:
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        notes.append(f"{', '.join(empty[:3])}{more}: empty")


def _paths(name: str) -> tuple[Sequence[Path | None], list[str]]:
    """What is read for one argument (None: standard input), and what of a folder is not."""
    return files_below(Path(name)) if Path(name).is_dir() else ([None if name == "-" else Path(name)], [])


def _label(path: Path, named: Path) -> str:
    label = str(path.relative_to(named)) if named.is_dir() else str(path)
    return one_line(label)


def _total(names: list[str]) -> int:
    paths = [p for name in names for p in _paths(name)[0] if p is not None]
    return sum(p.stat().st_size for p in paths if p.is_file())


class ProgressLine:
    """A line on stderr, rewritten at most ten times a second, that appears after half a second."""

    def __init__(self, on: bool, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._on, self._total, self._clock = on, total, clock
        self._done, self._began, self._shown = 0, clock(), 0.0

    def add(self, count: int) -> None:
        """So many bytes more were read."""
        self._done += count
        now = self._clock()
        if self._on and now - self._began > 0.5 and now - self._shown > 0.1:
            self._shown = now
            self._show(now)

    def _show(self, now: float) -> None:
        speed = self._done / max(now - self._began, 0.001)
        share = min(self._done / self._total, 1.0) if self._total else 0.0
        left = f", {max(self._total - self._done, 0) / speed:.0f} s left" if self._total else ""
        bar = f"[{'#' * int(share * 30):<30}] {share:4.0%} " if self._total else ""
        rewrite(f"{bar}{self._done >> 20} MiB, {speed / 2**20:.0f} MiB/s{left}   ")

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            rewrite(" " * 79)
            rewrite("")
