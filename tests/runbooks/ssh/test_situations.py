"""Every situation: what was read in, stage, causes, acts and warnings out."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from tests.runbooks.ssh.build import judge
from tests.support.yaml_file import read_yaml

ALL = read_yaml(Path(__file__).parent / "situations.yaml")


@pytest.mark.parametrize("doc", ALL, ids=lambda d: d["title"])
def test_situation(doc: dict[str, Any]) -> None:
    """One situation."""
    d = judge(doc["given"])
    shown = d.model_dump_json(indent=1)
    assert d.state == doc["state"], shown
    assert [f"{c.slug} {c.certainty}" for c in d.causes] == doc.get("causes", []), shown
    assert [s.kind for p in d.plans for s in p.steps] == doc.get("acts", [s.kind for p in d.plans for s in p.steps]), (
        shown
    )
    assert doc.get("must_not", "") in " | ".join(d.must_not), shown
    assert doc.get("do_now", "") in " | ".join(d.do_now), shown
    assert d.must_not
    assert doc.get("headline", "") in d.headline, shown
    assert d.headline
    known = load_runbook("ssh-auth-failure").causes
    assert all(c.slug in known and c.evidence for c in d.causes)


def test_every_cause_has_a_situation() -> None:
    """Each cause of runbook.yaml is expected at least once."""
    seen = {line.split(" ")[0] for doc in ALL for line in doc.get("causes", [])}
    assert set(load_runbook("ssh-auth-failure").causes) - seen == set()
