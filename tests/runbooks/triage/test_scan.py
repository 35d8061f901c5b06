"""The fast way finds what the plain slow way finds: of every pattern the first and the last lines, and no others."""

import random
import re
from functools import partial
from pathlib import Path

import pytest

from runbooks.triage.load import library
from runbooks.triage.loose import alike_to, loose, minds_digits
from runbooks.triage.sieve import Lines, Sieve
from tests.runbooks.triage.slowly import altered, cut, fast, slowly, told
from tests.support.cost import cpu_seconds
from tests.support.yaml_file import read_yaml


def made(seed: int, count: int, of: int) -> list[str]:
    """Lines of the knowledge's own examples, altered; from few of them, so that many patterns match often."""
    rng = random.Random(seed)
    chosen = rng.sample(told(), of)
    return "\n".join(altered(rng.choice(chosen), rng) for _ in range(count)).split("\n")


def test_the_fast_way_finds_what_the_slow_way_finds() -> None:
    lines = made(1, 120, 20)
    assert fast(cut(lines, 50)) == slowly(cut(lines, 50))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_texts(seed: int) -> None:
    lines = made(seed, 1500, (20, 100, 1000)[seed % 3])
    assert fast(cut(lines, 400)) == slowly(cut(lines, 400))


@pytest.mark.soak
def test_the_whole_corpus() -> None:
    root = Path(__file__).parents[2] / "corpus"
    read = [read_yaml(p) for p in sorted(root.glob("*.yaml"))]
    lines = [line for r in read for e in r["excerpts"] for line in e["text"].split("\n")]
    assert fast(cut(lines, 2000)) == slowly(cut(lines, 2000))


def test_what_a_pattern_minds() -> None:
    assert all(map(minds_digits, ("error 404", "rank[1-9]", r"a(?!7)")))
    assert not any(map(minds_digits, (r"line \d+ of [0-9]{2,}", "no space left")))
    assert loose(r"(?i)\s*Foo(?!x)\d*$") == (r"(?m)\x66\x6f\x6f", True)
    assert alike_to("[1-3]x")[ord("2")] == alike_to("[1-3]x")[ord("1")] != alike_to("[1-3]x")[ord("7")]


def test_every_pattern_is_made_looser_in_a_way_that_the_fast_matcher_takes() -> None:
    for pattern in library().literals:
        assert Sieve(pattern, "^" in pattern, False).passed(Lines([b"\0"]), [0]) in ([], [0])


FILLERS = ("-x", "a", " ", "1", "a ", "1.", "failed ", "error: ", "GPU 0 ", "rank 1 not ")


@pytest.mark.parametrize("filler", [FILLERS[0], *(pytest.param(f, marks=pytest.mark.soak) for f in FILLERS[1:])])
def test_no_pattern_takes_long_on_a_hostile_line(filler: str) -> None:
    """4,000 characters are all that a pattern ever sees of a line. What grows without bound would take minutes on them."""
    line = (filler * 4000)[:4000]
    slow = []
    for pattern in library().literals:
        regex = re.compile(pattern)
        if (took := cpu_seconds(partial(regex.search, line), 0.5)) > 0.5:
            slow.append((round(took, 2), pattern))
    assert slow == []
