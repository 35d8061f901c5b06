"""Judges the rebuilt public incidents and says how many came out right.

    python -m tests.incidents            # prints the counts
    python -m tests.incidents --write    # and writes them into tests/RESULTS.md
    python -m tests.incidents --unseen --write    # only those that nobody had seen before they were judged

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
FIRST, LAST = "<!-- unseen: written by `python -m tests.incidents --unseen --write` -->", "<!-- end of unseen -->"
AIMS = (("harmful", "0 %"), ("wrong", "at most 5 %"), ("blind", "at most 10 %"), ("right or honestly open", "at least 85 %"))
Line = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    """Runs, counts, prints, writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.incidents", description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write tests/RESULTS.md")
    parser.add_argument("--unseen", action="store_true", help="only the incidents of unseen.yaml")
    parser.add_argument("-n", default="4", help="parallel test processes")
    given, rest = parser.parse_known_args(argv)
    what = HERE / "incidents" / ("test_unseen.py" if given.unseen else "")
    with tempfile.TemporaryDirectory(prefix="incidents-") as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", given.n, "-m", "not soak", str(what), *rest]
        code = subprocess.run(command, env=os.environ | {NOTES: folder}, check=False).returncode
        lines = [json.loads(x) for p in sorted(Path(folder).glob("*.jsonl")) for x in p.read_text().splitlines()]
    if not lines:
        print("nothing was judged")
        return 3
    unseen = [x for x in lines if "source" in x]
    parts = [(FIRST, told_unseen(unseen), LAST)] if unseen else []
    if not given.unseen:
        parts.append((BEGIN, told([x for x in lines if "source" not in x]), END))
    for begin, text, end in parts:
        print(text)
        if given.write:
            before, _, after = RESULTS.read_text(encoding="utf-8").partition(begin)
            RESULTS.write_text(f"{before}{begin}\n{text}{end}{after.partition(end)[2]}", encoding="utf-8")
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


def told_unseen(lines: list[Line]) -> str:
    """The part on incidents that nobody had seen: counts of each round at first sight and today, then each with its link."""
    all_ = sorted(worst(lines).values(), key=lambda x: (x["round"], len(x["id"]), x["id"]))
    rounds = [[x for x in all_ if x["round"] == n] for n in sorted({x["round"] for x in all_})]
    sets = [(f"{name} round, {title}", [x[when] for x in part]) for name, part in zip(("first", "second", "third"), rounds, strict=True)
            for title, when in (("at first sight", "first"), ("today", "came"))]  # fmt: skip
    counts = [(title, Counter(came)) for title, came in sets]
    by_hand = sum(x["fed"] == "evidence" for x in all_)
    rows = [
        f"| [{x['id']}]({x['source']}) | `{x['runbook']}` | {x['first']} | {x['came']} | {x['said']} |" for x in all_
    ]
    return "\n\n".join((
        "## Public incidents that nobody here had seen",
        f"Measured {datetime.now(UTC):%Y-%m-%d} with `python -m tests.incidents --unseen --write`. "
        f"{len(all_)} public threads in three rounds, at least ten for each runbook. None stands in another collection of these tests. "
        "What was shown, what was wrong and what would hurt was written down from the thread, and committed. "
        "Only then was each judged, once. "
        "The first sight never changes. Where a judge is changed afterwards, today's verdict only proves that the fault was fixed. "
        "Each later round was written down after the judges had been changed for the one before. "
        "The last one at first sight is the measure of how they do now.",
        f"The author read the evidence models, the readers and the runbooks' situations, not the judges. "
        f"{len(all_) - by_hand} incidents are files that the product's own readers read. The other {by_hand} are evidence built by hand "
        "from the thread's numbers and lines. What was added is marked in `tests/incidents/unseen.yaml`. "
        "Where a thread names no cause, its tool's own words decide, as the file says.",
        "After the first sight of the first round one rule was made stricter. Where no cause can be shown, an untrue one is wrong even if "
        "it is only likely. PU84 counts as wrong and PU66 as open by it. Two pieces of evidence had a mistake of their "
        "author. PU65 named a job that did not exist, and PU73 had fewer nodes than its job. Both were corrected after the first sight. "
        "In the second round nothing was corrected. Four of its open ones, PV14, PV32, PV33 and PV55, confirm something that had been "
        "written down as true in part before they were judged. Counted as wrong, they would make the wrong of that round 5 of 58, 8.6 %. "
        "In the third round nothing was corrected. Of its open ones, PW14, PW63 and PW64 are of that kind, and PW94 holds such a cause "
        "for likely. Counted as wrong, they would make the wrong of that round 6 of 55, 10.9 %.",
        "| incidents | judged | right | honestly open | blind | wrong | harmful |\n|---|---|---|---|---|---|---|\n"
        + "\n".join(_row(title, c) for title, c in counts),
        "| aim | of | " + " | ".join(title for title, _ in counts) + " |\n|---|---|" + "---|" * len(counts) + "\n"
        + "\n".join(f"| {name} | {aim} | " + " | ".join(_share(c, name) for _, c in counts) + " |" for name, aim in AIMS),
        "| incident | runbook | at first sight | today | what it said at first sight |\n|---|---|---|---|---|\n" + "\n".join(rows),
        _not_right_yet(all_),
    )) + "\n"  # fmt: skip


def _share(counts: Counter[str], name: str) -> str:
    whole = sum(counts.values())
    many = counts["right"] + counts["open"] if " or " in name else counts[name]
    return f"{many} of {whole}, {100 * many / whole:.1f} %"


def _not_right_yet(all_: list[Line]) -> str:
    """Blind, wrong or harmful to this day: a test holds each of them."""
    still = [x for x in all_ if x["came"] in CAME[2:]]
    return "### Not right yet\n\n" + ("\n".join(f"- {x['id']}: {x['came']} (`{x['test']}`)" for x in still) or "None.")


if __name__ == "__main__":
    sys.exit(main())
