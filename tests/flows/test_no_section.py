"""A runbook whose section the fleet file lacks does not apply; it is neither well, nor unreadable, nor a fault of ours."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.specs import SPECS, load_spec
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import folder_of, load_runbook
from runbooks.core.verdict import State
from tasks.context import Context
from tasks.transport.local import LocalHost

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "ray-job": "ray",
    "checkpoint-fallback": "checkpoints",
    "stale-rendezvous": "rendezvous",
    "distributed-setup": "launches",
    "stuck-spawning": "orchestrator",
    "fleet-sync": "orchestrator",
}
ABOUT = re.compile(r"the fleet file has no `(\w+)` (?:section|entry)")


def test_every_runbook_that_needs_a_section_is_here() -> None:
    """Each that says so anywhere in its reading."""
    folders = {slug: ROOT.joinpath("tasks", *folder_of(slug).split(".")) for slug in SPECS}
    said = {slug: {m for p in folder.glob("*.py") for m in ABOUT.findall(p.read_text("utf-8"))} for slug, folder in folders.items()}
    assert {slug for slug, sections in said.items() if sections} == set(SECTIONS)
    assert all(SECTIONS[slug] in sections for slug, sections in said.items() if sections)


@pytest.mark.parametrize("slug", SECTIONS)
def test_without_its_section_it_does_not_apply(slug: str) -> None:
    spec, limits = load_spec(slug), load_runbook(slug).limit_values()
    fleet = Fleet(nodes=(Node(name="n", local=True),))
    context = Context(
        fleet=fleet, target="n", open_host=lambda n: LocalHost(n.name), limits=limits, now=lambda: datetime.now(UTC)
    )
    found = spec.diagnose(spec.gather(context), spec.limits.model_validate(limits))
    assert found.state is State.NOT_APPLICABLE
    assert f"the fleet file has no `{SECTIONS[slug]}`" in found.headline
