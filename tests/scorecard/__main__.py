"""Runs the fault harness in a profile and says how often the engine's promises held.

    python -m tests.scorecard short            # what `make prove` runs: nothing is published
    python -m tests.scorecard whole --write    # `make scorecard`: writes tests/SCORECARD.md and tests/scorecard.json
    python -m tests.scorecard whole --keep A   # keeps its notes in the folder A; pytest's own options may follow, and tests to run
    python -m tests.scorecard show A [B …]     # the table of an earlier run's notes; a test that B has too counts as it came there

Exit codes: 0 every promise held, 1 one was broken or a test failed, 2 bad usage, 3 nothing was measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.engine.actions import ACTIONS
from runbooks.core.knowledge import load_runbook, runbook_slugs
from tests.scorecard.audit import LOOKED_AT, PROMISES
from tests.scorecard.notes import FOLDER, NO_FAULT, STAND_INS

HERE = Path(__file__).resolve().parents[1]
LEAST_LINES = 40  # a scorecard of fewer measured nothing worth the name
PROFILE = "profile"  # file of a folder of notes
PROFILES = {"short": "prove and not soak", "whole": "prove"}
WORDS = {
    "twice": "one permission used for two actions",
    "unapproved": "actions without a permission",
    "other_target": "actions on another target than was allowed",
    "after_freeze": "steps begun after a freeze",
    "over_budget": "targets changed over the budget",
    "approvals_lost": "approvals that led to nothing",
    "never_ended": "runs that never ended",
    "secrets": "secrets found in the database",
}


def main(argv: list[str] | None = None) -> int:
    """Runs, reads the notes, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.scorecard", description=__doc__.split("\n")[0])
    parser.add_argument("profile", choices=[*PROFILES, "show"])
    parser.add_argument("folder", nargs="*", help="with show: the notes of an earlier run, and of those in which some tests ran again")
    parser.add_argument("--keep", type=Path, help="keep the notes in this new folder")
    parser.add_argument("--write", action="store_true", help="write tests/SCORECARD.md and tests/scorecard.json")
    parser.add_argument("-n", default="4", help="parallel test processes")
    given, rest = parser.parse_known_args(argv)
    if given.profile == "show":
        if not given.folder:
            parser.error("show needs the folder of an earlier run's notes")
        first, *later = map(Path, given.folder)
        notes, again = replaced(_read(first), [_read(folder) for folder in later])
        return _tell(notes, (first / PROFILE).read_text(encoding="utf-8").strip(), given.write, 0, again)
    with tempfile.TemporaryDirectory(prefix="scorecard-") as place:
        folder = given.keep or Path(place)
        folder.mkdir(exist_ok=folder == Path(place))
        (folder / PROFILE).write_text(given.profile, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-n", given.n, "--durations", "15", "-m", PROFILES[given.profile]]
        done = subprocess.run([*command, *given.folder, *rest], env=os.environ | {FOLDER: str(folder.resolve())}, check=False)
        return _tell(_read(folder), given.profile, given.write, done.returncode)


def _read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def replaced(notes: list[dict[str, Any]], later: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The notes, with those of each test that ran again as they came last; and which tests those are. Every audit counts."""
    again: set[str] = set()
    for fresh in later:
        tests = {n["test"] for n in fresh if "test" in n}
        notes = [n for n in notes if n.get("test") not in tests] + fresh
        again |= tests
    return notes, sorted(again)


def summarise(notes: list[dict[str, Any]]) -> dict[str, Any]:
    """The scorecard as data: lines by runbook, action kind, fault and point; the audit's sums; what was not measured."""
    lines: dict[tuple[str, ...], dict[str, Any]] = defaultdict(lambda: {"tries": 0, "broken": 0, "tests": set()})
    for note in (n for n in notes if "test" in n):
        for runbook, kind in note["acted"] or [["", ""]]:
            for fault, point in note["faults"]:
                line = lines[runbook, kind, fault, point]
                line["tries"] += note["tries"]
                line["broken"] += not note["held"]
                line["tests"].add(note["test"].split("[")[0])
    audits = [n["audit"] for n in notes if "audit" in n]
    sums = {key: sum(a[key] for a in audits) for key in LOOKED_AT + PROMISES} if audits else {}
    rows = [
        {"runbook": r, "action": k, "fault": f, "point": p, **{**v, "tests": sorted(v["tests"])}}
        for (r, k, f, p), v in sorted(lines.items())
    ]
    tried = {(r["runbook"], r["action"]) for r in rows if not str(r["fault"]).startswith(NO_FAULT) and r["runbook"] != STAND_INS}
    measured = {kind for _, kind in tried}
    return {
        "lines": rows,
        "servers_audited": len(audits),
        "audit": sums,
        "not_measured_in": {
            slug: left for slug in acting_runbooks() if (left := [k for k in load_runbook(slug).actions if (slug, k) not in tried])
        },
        "not_measured": sorted(k for k in ACTIONS if k not in measured and not k.startswith("toy-")),
    }


def acting_runbooks() -> list[str]:
    """Every runbook that has a plan of some kind."""
    return [slug for slug in runbook_slugs() if load_runbook(slug).actions]


def _tell(notes: list[dict[str, Any]], profile: str, write: bool, tests_failed: int, again: Sequence[str] = ()) -> int:
    card = summarise(notes) | {"again": list(again)}
    broken = sum(row["broken"] for row in card["lines"]) + sum(card["audit"].get(p, 0) for p in PROMISES)
    tries = sum(row["tries"] for row in card["lines"])
    print(f"scorecard ({profile}): {len(card['lines'])} lines, {tries} tries, broken {broken}; audit {card['audit']}")
    for said in (d for n in notes for d in n.get("details", ())):
        print(f"  audit: {said}")
    for row in (r for r in card["lines"] if r["broken"]):
        print(f"  broken: {row['runbook']} {row['action']} {row['fault']} at {row['point']}: {', '.join(row['tests'])}")
    if len(card["lines"]) < LEAST_LINES or not card["audit"].get("actions"):
        print("scorecard: too little was measured to mean anything")
        return 3
    if write:
        (HERE / "scorecard.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        (HERE / "SCORECARD.md").write_text(markdown(card, profile), encoding="utf-8")
        print("scorecard: wrote tests/SCORECARD.md and tests/scorecard.json")
    return 1 if broken or tests_failed else 0


def markdown(card: dict[str, Any], profile: str) -> str:
    """The published page."""
    sums = card["audit"]
    again = ", ".join(f"`{t}`" for t in card.get("again", ()))
    head = [
        "# Scorecard",
        "",
        f"What the fault harness did to the engine ({profile} profile, {datetime.now(UTC):%Y-%m-%d}), written by",
        f"`python -m tests.scorecard {profile} --write` (`make scorecard` runs the whole profile).",
        "A try is broken when any promise of its test did not hold. The audit counts broken promises in everything that the",
        f"{card['servers_audited']} servers of the tests recorded: {sums.get('runs', 0)} runs, {sums.get('actions', 0)} actions, "
        f"{sums.get('freezes', 0)} freezes. It does not ask",
        f"the engine's own checks. {sums.get('not_judged', 0)} runs whose policy file was gone were not judged for their permission; "
        f"{sums.get('not_compared', 0)} actions",
        "of automatic runs that were killed before their report were not compared with what was allowed.",
        *([f"They failed in the whole run, ran again alone, and count as they came then: {again}."] if again else []),
        "",
        "| promise | broken |",
        "|---|---|",
        *(f"| {WORDS[p]} | {sums.get(p, 0)} |" for p in PROMISES),
        "",
        "| runbook | action | fault | at | tries | broken | command: `.venv/bin/python -m pytest -m ''` and |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {r['runbook'] or '-'} | {r['action'] or '-'} | {r['fault']} | {r['point'] or '-'} | {r['tries']} | {r['broken']} "
        f"| {', '.join(f'`{t}`' for t in r['tests'])} |"
        for r in card["lines"]
    ]
    rest = ", ".join(f"`{k}`" for k in card["not_measured"]) or "none"
    tail = [
        f"Kinds that no runbook measured through the engine under a fault: {rest}.",
        "",
        "Of each runbook that acts, what it may do and was not measured doing under a fault; (toy) and (stand-ins) are the engine",
        "itself, with a made-up runbook.",
        "",
        "| runbook | not measured |",
        "|---|---|",
        *(f"| {slug} | {_left(card, slug)} |" for slug in acting_runbooks()),
        "",
    ]
    return "\n".join([*head, *rows, "", *tail])


def _left(card: dict[str, Any], slug: str) -> str:
    left = card["not_measured_in"].get(slug, [])
    if len(left) == len(load_runbook(slug).actions):
        return "**nothing was measured**: " + ", ".join(f"`{k}`" for k in left)
    return ", ".join(f"`{k}`" for k in left) or "-"


if __name__ == "__main__":
    raise SystemExit(main())
