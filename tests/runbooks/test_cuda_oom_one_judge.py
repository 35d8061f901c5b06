"""One judge for the sums of an out-of-memory message: the runbook and the text tables name the same cause, and no report carries
two causes of which one forbids what the other one asks for."""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Absent, Known
from runbooks.core.verdict import Cause, Certainty
from runbooks.memory.diagnose import diagnose
from runbooks.memory.evidence import Evidence, LogFacts
from runbooks.memory.limits import Limits
from runbooks.parsers.cuda_oom import parse_cuda_ooms
from runbooks.triage.text import judge_text
from tests.support.at_odds import at_odds

CORPUS = Path(__file__).parents[1] / "corpus"
LIMITS = Limits.model_validate(load_runbook("memory-pressure").limit_values())
GIB = 1 << 30


def old(total: float, free: float, mine: float, allocated: float, tried: float) -> str:
    """As torch before 2.1 says it. GiB."""
    return (
        f"RuntimeError: CUDA out of memory. Tried to allocate {tried:.2f} GiB (GPU 0; {total:.2f} GiB total capacity; {allocated:.2f} GiB "
        f"already allocated; {free:.2f} GiB free; {mine:.2f} GiB reserved in total by PyTorch)"
    )


def new(total: float, free: float, mine: float, allocated: float, tried: float) -> str:
    """As torch from 2.1 on says it. GiB."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried:.2f} GiB. GPU 0 has a total capacity of {total:.2f} GiB of "
        f"which {free:.2f} GiB is free. Including non-PyTorch memory, this process has {mine:.2f} GiB memory in use. Of the allocated "
        f"memory {allocated:.2f} GiB is allocated by PyTorch, and {mine - allocated:.2f} GiB is reserved by PyTorch but unallocated."
    )


WORLDS = [
    *((80.0, 0.1, mine, mine * part, tried) for mine, part, tried in itertools.product((30.0, 67.0, 71.0, 77.0), (0.85, 0.99), (0.5, 4.0))),
    (80.0, 3.0, 60.0, 55.0, 2.0),  # free for it
    (80.0, 3.0, 60.0, 55.0, 90.0),  # more than the GPU has
]

EVERY_WORLD = [
    (80.0, free, mine, mine - unused, tried)
    for free, mine, unused, tried in itertools.product((0.1, 4.0), (20.0, 60.0, 75.0), (0.5, 3.0, 12.0), (0.2, 3.4, 9.0, 14.0, 70.0))
    if free < tried
]


def judged(message: str) -> Cause:
    """The first cause of memory-pressure for a job that ended with this message."""
    none = Absent(proof="nothing there")
    log = Known[LogFacts](value=LogFacts(cuda=parse_cuda_ooms(message)))
    seen = Evidence(node="node-a", taken_at=datetime(2026, 11, 27, tzinfo=UTC), log=log, gpus=none, host=none, groups=none, killed=none,
                    commands=none)  # fmt: skip
    return diagnose(seen, LIMITS).causes[0]


@pytest.mark.parametrize("written", [old, new])
def test_the_runbook_and_the_text_tables_name_the_same_cause(written: Callable[..., str]) -> None:
    named = {}
    for world in WORLDS:
        message = written(*world)
        named[message] = (judged(message).slug, judge_text(message)[0].slug)
    assert {m: two for m, two in named.items() if two[0] != two[1]} == {}
    assert {runbook for runbook, _ in named.values()} == {"gpu-held-by-others", "fragmented", "model-too-large", "numbers-contradict"}


@pytest.mark.parametrize("written", [old, new])
@pytest.mark.parametrize("world", EVERY_WORLD)
def test_confirmed_means_that_the_numbers_exclude_the_rest(written: Callable[..., str], world: tuple[float, ...]) -> None:
    """A process that would have room in the memory which it keeps unused is not too large for the GPU for sure. Nor do others hold for sure
    what it lacks, if it has that unused itself or needs more than the whole GPU."""
    total, free, mine, allocated, tried = world
    found = judged(written(*world))
    sure = found.slug if found.certainty is Certainty.CONFIRMED else ""
    fits, unused = tried <= free + mine - allocated, mine - allocated
    assert sure != "model-too-large" or not fits, found
    assert sure != "gpu-held-by-others" or (allocated + tried <= total and not (fits and unused > 0.05 * total)), found
    assert found.certainty is Certainty.CONFIRMED or found.decides or found.slug == "fragmented", found


def test_these_causes_are_at_odds_with_each_other() -> None:
    """What the test below, and that of every situation (test_consistent.py), would find."""
    book = load_runbook("memory-pressure").causes
    both = at_odds((s, book[s].remedy, book[s].must_not) for s in ("gpu-held-by-others", "model-too-large", "fragmented"))
    assert len(both) >= 3


@cache
def texts() -> tuple[str, ...]:
    """Excerpts of the corpus that speak of a GPU's memory."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = [yaml.load(p.read_text(encoding="utf-8"), Loader=loader) for p in sorted(CORPUS.glob("*.yaml"))]  # noqa: S506 - a safe loader
    rows = [row for doc in files for row in (doc if isinstance(doc, list) else doc.get("excerpts", []))]
    return tuple(row["text"] for row in rows if re.search(r"(?i)out of memory|\boom\b|G(?:i)?B.*memory", row.get("text", "")))


def test_no_text_of_the_corpus_points_to_causes_that_forbid_each_others_remedy() -> None:
    found = {}
    for text in texts():
        causes = [(c.slug, c.remedy, c.must_not) for c in judge_text(text) if not c.benign]
        if both := at_odds(causes):
            found[text[:200]] = both
    assert found == {}
    assert len(texts()) > 20
