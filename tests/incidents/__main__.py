"""Judges the rebuilt public incidents and says how many came out right.

    python -m tests.incidents            # prints the counts
    python -m tests.incidents --write    # and writes them into tests/RESULTS.md

Exit codes: 0 every test held, 1 one failed, 3 nothing was judged.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.incidents.plugin import CAME, NOTES

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "RESULTS.md"
BEGIN, END = "<!-- incidents: written by `python -m tests.incidents --write` -->", "<!-- end of incidents -->"
Line = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    """Runs, counts, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.incidents", description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write tests/RESULTS.md")
    parser.add_argument("-n", default="4", help="parallel test processes")
    given, rest = parser.parse_known_args(argv)
    with tempfile.TemporaryDirectory(prefix="incidents-") as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", given.n, "-m", "not soak", str(HERE / "incidents"), *rest]
        code = subprocess.run(command, env=os.environ | {NOTES: folder}, check=False).returncode
        lines = [json.loads(x) for p in sorted(Path(folder).glob("*.jsonl")) for x in p.read_text().splitlines()]
    if not lines:
        print("nothing was judged")
        return 3
    text = told(lines)
    print(text)
    if given.write:
        before, _, after = RESULTS.read_text(encoding="utf-8").partition(BEGIN)
        RESULTS.write_text(f"{before}{BEGIN}\n{text}{END}{after.partition(END)[2]}", encoding="utf-8")
    return 1 if code else 0


def worst(lines: list[Line]) -> dict[str, Line]:
    """Of each incident the worst that came in any of its tests; a test that failed counts as wrong."""
    found: dict[str, Line] = {}
    for line in lines:
        came = line["came"] if line["held"] or line["came"] == "harmful" else "wrong"
        line = line | {"came": came}
        before = found.get(line["id"])
        if before is None or CAME.index(came) > CAME.index(before["came"]):
            found[line["id"]] = line
    return found


def _row(title: str, counts: Counter[str]) -> str:
    return f"| {title} | {sum(counts.values())} | " + " | ".join(str(counts[c]) for c in CAME) + " |"


def told(lines: list[Line]) -> str:
    """The part of RESULTS.md."""
    incidents = worst([x for x in lines if "twin" not in x])
    twins = [x for x in lines if "twin" in x]
    rows = []
    for title, known in (("in sight when its judge was written or changed", True), ("not in sight", False)):
        counts = Counter(x["came"] for x in incidents.values() if x["known"] is known and "first" not in x)
        rows.append(_row(title, counts))
    fresh = [x for x in incidents.values() if "first" in x]
    if fresh:
        rows.append(_row("invented beside them, at first sight", Counter(x["first"] for x in fresh)))
        rows.append(_row("the same, after what came wrong was mended", Counter(x["came"] for x in fresh)))
    by_hand = sorted(i for i, x in incidents.items() if x["fed"] == "evidence")
    not_right = sorted((CAME.index(x["came"]), i, x) for i, x in incidents.items() if x["came"] != "right")
    parts = [
        "## Public incidents, rebuilt and judged",
        f"Measured {datetime.now(UTC):%Y-%m-%d} with `python -m tests.incidents --write`. Each incident is rebuilt and judged by its "
        "runbook with default limits, and a test holds the outcome. An incident counts with the worst of its tests. "
        "One that was in sight only proves that a fault was fixed. Only one that was not in sight says something about the next. "
        "The invented ones were written with their right answer before they were judged. Their author knew the names of the causes, "
        "not the judges.",
        "| incidents | judged | right | honestly open | blind | wrong | harmful |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows),
        f"Twins: {len(twins)} tried, {sum(x['held'] for x in twins)} with the verdict that they must have. "
        "In a twin the fault is taken out, or the tempting wrong answer is made true.",
        f"Fed through the product's own readers: {len(incidents) - len(by_hand)}. By evidence built by hand, as most invented ones are: "
        f"{len(by_hand)}" + (f" (`{' '.join(by_hand)}`)." if by_hand else "."),
    ]
    if not_right:
        parts.append("Not right:\n\n" + "\n".join(f"- {i}: {x['came']} (`{x['test']}`)" for _, i, x in not_right))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
