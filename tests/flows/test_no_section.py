"""A runbook whose section the fleet file lacks does not apply; it is neither well, nor unreadable, nor a fault of ours."""

from datetime import UTC, datetime

import pytest

from flows.specs import SPECS, load_spec
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import State
from tasks.context import Context
from tasks.transport.local import LocalHost

SECTIONS = {
    "ray-job": "ray",
    "checkpoint-fallback": "checkpoints",
    "stale-rendezvous": "rendezvous",
    "distributed-setup": "launches",
    "stuck-spawning": "orchestrator",
}
WITHOUT = {"zombie-gpu", "container-death", "memory-pressure", "data-check", "host-limits", "ssh-auth-failure"}


def test_every_runbook_is_here() -> None:
    assert set(SECTIONS) | WITHOUT == set(SPECS)


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
