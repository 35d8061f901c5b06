"""Sizes are for a person to read: no sentence of any situation holds bytes as a computer counts them."""

import re

import pytest

from runbooks.core.sizes import size
from runbooks.core.verdict import Diagnosis
from tests.runbooks.every import situations

RAW = re.compile(r"(?<![\w./:=-])\d{7,}(?: bytes|(?= of \d))|\b\d{5,} (?:bytes|[KM]iB)\b")


def prose(d: Diagnosis) -> list[str]:
    """What a person reads; commands are for the shell."""
    causes = [w for c in d.causes for w in (*c.evidence, *c.decides)]
    plans = [w for p in d.plans for s in p.steps for w in (s.effect, s.loses)]
    said = [*d.must_not, *d.do_now, *d.waiting_costs, *d.unknowns, *(f.issue for f in d.findings)]
    return [d.headline, d.symptom, *causes, *plans, *said]


@pytest.mark.parametrize("slug", sorted({s.runbook for s in situations()}))
def test_no_raw_bytes(slug: str) -> None:
    mine = [c for c in situations() if c.runbook == slug]
    assert mine
    wrong = [(c.title, line) for c in mine for line in prose(c.judge()) if RAW.search(line)]
    assert not wrong


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1 KiB"), (12.5 * 2**20, "12.5 MiB"), (64 << 30, "64 GiB")],
)
def test_sizes(count: float, words: str) -> None:
    assert size(count) == words
