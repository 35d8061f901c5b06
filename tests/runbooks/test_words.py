"""How knowledge is worded: what must not be done is a bare imperative, because the reader gets it as "Do not …"."""

import re
from pathlib import Path

import pytest

from flows.runbooks import ROWS
from runbooks.core.knowledge import load_runbook, runbook_slugs
from tests.support.yaml_file import read_yaml

_FILES = sorted([*Path("runbooks").glob("*/runbook.yaml"), *Path("runbooks/knowledge/families").glob("*.yaml")])
_NOT_IMPERATIVE = re.compile(r"(?i)^(?:do not|don't|never|no|not|an?|the|more|many|longer|different|\w+ing)\b")


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem if p.stem != "runbook" else p.parent.name)
def test_prohibitions_read_well_after_do_not(path: Path) -> None:
    causes = read_yaml(path)["causes"]
    wrong = [f"{slug}: {line}" for slug, c in causes.items() for line in c.get("must_not", ()) if _NOT_IMPERATIVE.match(line)]
    assert not wrong, f"{path}: begin `must_not` with an imperative (kill …, raise …)"


def test_no_runbook_that_acts_says_that_it_changes_nothing() -> None:
    for slug in runbook_slugs():
        book = load_runbook(slug)
        said = " ".join((book.summary, *ROWS.get(slug, ())))
        assert bool(re.search(r"(?i)\bchanges nothing\b", said)) <= (not book.actions), slug
