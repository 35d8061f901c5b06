"""How triage answers headlines, as an on-call engineer types them: run as `python -m tests.corpus.headlines [first|second]`.

A headline is one or two sentences. Named is a cause with evidence; near one of those that triage shows as places to look,
or leaves open.
"""

import sys
from pathlib import Path

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.triage.text import judge_lines
from tests.corpus.measure import meanings
from tests.support.yaml_file import read_yaml

FILE = Path(__file__).parent / "headlines.yaml"
PARTS = ("first", "second", "elsewhere", "last")
COLUMNS = ("named right", "near", "near, but others", "silent", "said to be well", "named wrong")
FIRST_LOOK = """Headlines, as an on-call engineer types them into a pager or a chat (headlines.yaml): written and labelled from the causes'
titles alone, committed before one of them was judged. `near`: the right cause is among the three that are left open or shown as
places to look. The first look:

| headlines | count | named right | near | near, but others | silent | said to be well | named wrong |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| first, covered | 160 | 31 | 42 | 14 | 13 | 54 | 6 |
| second, covered | 59 | 15 | 13 | 4 | 4 | 21 | 2 |
| both, of our world and covered by no cause | 25 | 0 | 0 | 2 | 9 | 14 | 0 |
| both, of another world or healthy | 35 | 0 | 0 | 1 | 13 | 21 | 0 |
"""


class Headline(Frozen):
    """A labelled headline."""

    kind: str = Field(pattern="^(covered|uncovered|foreign|healthy)$")
    right: tuple[str, ...]
    text: str


class Answer(Frozen):
    """What triage made of it."""

    headline: Headline
    verdict: str
    named: tuple[str, ...]
    near: tuple[str, ...]  # left open, then nearest
    result: str  # one of COLUMNS


def headlines(part: str) -> tuple[Headline, ...]:
    """The headlines of one of PARTS."""
    return tuple(Headline.model_validate(h) for h in read_yaml(FILE)[part])


def answers(part: str) -> list[Answer]:
    """Every headline of a part, judged."""
    same = meanings()
    return [_answer(h, same) for h in headlines(part)]


def _answer(headline: Headline, same: dict[str, frozenset[str]]) -> Answer:
    outcome = judge_lines(headline.text)
    named = tuple(c.slug for c in outcome.causes)
    near = (*(c.slug for c in outcome.inconclusive), *(n.slug for n in outcome.nearest))[:3]
    right = {s for name in headline.right for s in same.get(name, {name})}
    return Answer(
        headline=headline,
        verdict=outcome.verdict,
        named=named,
        near=near,
        result=_result(outcome.verdict, named, near, right),
    )


def _result(verdict: str, named: tuple[str, ...], near: tuple[str, ...], right: set[str]) -> str:
    if named:
        return "named right" if named[0] in right else "named wrong"
    if near:
        return "near" if right.intersection(near) else "near, but others"
    return "said to be well" if verdict in ("nothing", "benign") else "silent"


def table(parts: dict[str, list[Answer]]) -> str:
    """Markdown: one row for each part and kind."""
    rows = ["| headlines | count | " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * (len(COLUMNS) + 1)]
    for part, found in parts.items():
        for kind in ("covered", "uncovered", "foreign", "healthy"):
            of = [a.result for a in found if a.headline.kind == kind]
            if of:
                rows.append(f"| {part}, {kind} | {len(of)} | " + " | ".join(str(of.count(c)) for c in COLUMNS) + " |")
    return "\n".join(rows)


def section() -> str:
    """Markdown for RESULTS.md: the first look, and today."""
    return f"""{FIRST_LOOK}
Today. `second` was never tuned to (but two that were named wrong to the end, by two signatures, were put right);
`elsewhere` served to find where nearness begins, `last` was written after that and judged
once. After the first look one more cause was added to four labels that fit two alike, and a cause was new:

{table({part: answers(part) for part in PARTS})}
"""


def main(args: list[str]) -> int:
    """Print the table; for parts that are named, every headline that is not answered well."""
    print(table({part: answers(part) for part in PARTS}))
    for part in args:
        for a in answers(part):
            well = (
                a.result in ("named right", "near") if a.headline.right else a.result in ("silent", "said to be well")
            )
            if not well:
                print(f"{a.result:16} {a.headline.right} {a.headline.text!r}: {a.verdict} {a.named} near {a.near}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
