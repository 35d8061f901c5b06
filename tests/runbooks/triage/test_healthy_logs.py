"""Logs recorded from real components that did their work: nothing in them is a fault."""

from pathlib import Path

import pytest

from runbooks.triage.judge import judge
from runbooks.triage.sources import blocks

HEALTHY = Path(__file__).parents[2] / "data" / "healthy"
LOGS = sorted(str(p.relative_to(HEALTHY)) for p in HEALTHY.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", LOGS)
def test_a_component_at_work_is_no_fault(name: str) -> None:
    """etcd 3.4, PostgreSQL 15, torchrun with two ranks at the level Info, a Ray 2 cluster with one job, OpenSSH 9."""
    outcome = judge(blocks(HEALTHY / name, name))
    assert [(c.slug, [line.text for line in c.evidence]) for c in (*outcome.causes, *outcome.inconclusive)] == []
    assert outcome.lines_read > 4
    assert outcome.verdict == "nothing" or name.startswith("ray/")  # its start-up warns that it sees no other network


@pytest.mark.parametrize("name", sorted(p.name for p in (HEALTHY.parent / "at_work").iterdir()))
def test_a_node_at_work_has_no_guilty_cause(name: str) -> None:
    """Documented lines, readings, settings and sources of machines that work, with their usual warnings, side by side."""
    outcome = judge(blocks(HEALTHY.parent / "at_work" / name, name))
    assert [(c.slug, [line.text for line in c.evidence]) for c in outcome.causes if not c.benign] == []


@pytest.mark.parametrize("name", sorted(p.name for p in (HEALTHY.parent / "fine").iterdir()))
def test_what_people_show_of_systems_that_are_fine_has_no_guilty_cause(name: str) -> None:
    """Start-ups, boots, installs, metrics, tries that worked the second time; questions, announcements, manuals, reviews."""
    outcome = judge(blocks(HEALTHY.parent / "fine" / name, name))
    assert [(c.slug, [line.text for line in c.evidence]) for c in outcome.causes if not c.benign] == []
