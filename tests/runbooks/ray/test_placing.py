"""What can never be placed is not told as what others hold, and the other way round: every small cluster against a search of all places."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Certainty
from runbooks.ray.diagnose import diagnose
from runbooks.ray.evidence import Evidence
from runbooks.ray.limits import Limits
from tests.runbooks.ray.test_situations import BASE

Amounts = Mapping[str, float]
LIMITS = Limits(**load_runbook("ray-job").limit_values())
CLUSTERS: list[list[Amounts]] = [[{"GPU": a} for a in sizes] for sizes in ((1,), (4, 4), (8, 4, 4), (8, 8, 2))]
REQUESTS: list[list[float]] = [list(r) for n in (1, 2, 3, 4) for r in itertools.combinations_with_replacement((1, 2, 3, 4, 8), n)]


def certainties(nodes: Sequence[Amounts], groups: Sequence[Sequence[Amounts]], used: float) -> dict[str, Certainty]:
    """The causes of a job that waits for these groups on a cluster of which others hold `used` GPUs."""
    listed = [{"node_id": f"{i:056x}", "ip": f"10.0.0.{i}", "alive": True, "resources": r} for i, r in enumerate(nodes)]
    totals = {name: [used if name == "GPU" else 0, sum(n.get(name, 0) for n in nodes)] for name in {k for n in nodes for k in n}}
    pending = [{"id": f"g{i}", "state": "PENDING", "job_id": "02000000", "bundles": list(g)} for i, g in enumerate(groups)]
    change: dict[str, Any] = {
        "nodes": {"kind": "known", "value": listed}, "groups": {"kind": "known", "value": pending},
        "usage": {"kind": "known", "value": {"usage": totals}},
    }  # fmt: skip
    found = diagnose(Evidence.model_validate(BASE | change), LIMITS)
    return {c.slug: c.certainty for c in found.causes}


def can_be_placed(nodes: list[float], parts: list[float]) -> bool:
    """By trying every place."""
    if not parts:
        return True
    return any(n >= parts[0] and can_be_placed([*nodes[:i], n - parts[0], *nodes[i + 1 :]], parts[1:]) for i, n in enumerate(nodes))


@pytest.mark.parametrize("nodes", CLUSTERS, ids=lambda c: "+".join(f"{n['GPU']:g}" for n in c))
def test_what_waits_in_turn_and_what_waits_for_ever(nodes: list[Amounts]) -> None:
    sizes = [n["GPU"] for n in nodes]
    told = {"no-such-resource": 0, "resources-busy": 0}
    for parts in REQUESTS:
        said = certainties(nodes, [[{"GPU": p} for p in parts]], used=1)
        possible = can_be_placed(sizes, parts)
        sure = {slug for slug, certainty in said.items() if certainty is Certainty.CONFIRMED}
        assert "no-such-resource" not in said or not possible, (parts, said)
        assert "resources-busy" not in sure or possible, (parts, said)
        assert said, parts
        if sum(parts) > sum(sizes) or max(parts) > max(sizes) or (not possible and len(set(parts)) == 1):
            assert sure == {"no-such-resource"}, (parts, said)
        for slug in sure:
            told[slug] += 1
    assert min(told.values()) > 0, told


def test_groups_that_fit_one_by_one_do_not_wait_for_ever() -> None:
    """Two groups of a whole cluster each: the second waits for the first. Nothing is held, so that no one else is to blame."""
    said = certainties([{"GPU": 4}], [[{"GPU": 4}], [{"GPU": 4}]], used=0)
    assert said == {"no-such-resource": Certainty.POSSIBLE}
    assert certainties([{"GPU": 4}], [[{"GPU": 4}], [{"GPU": 4}]], used=4) == {"resources-busy": Certainty.CONFIRMED}


def test_one_node_must_have_all_of_a_bundle() -> None:
    """A node of processors and a node of GPUs are no node for a bundle of both."""
    nodes: list[Amounts] = [{"CPU": 64}, {"CPU": 4, "GPU": 8}]
    assert certainties(nodes, [[{"CPU": 32, "GPU": 8}]], used=8) == {"no-such-resource": Certainty.CONFIRMED}
    assert certainties(nodes, [[{"CPU": 4, "GPU": 8}]], used=8) == {"resources-busy": Certainty.CONFIRMED}


def test_mixed_parts_for_which_no_place_was_found_are_not_sure() -> None:
    """3, 3 and 2 of two nodes of four: as many as there are, and no way to place them. That others hold one of them is not the reason."""
    said = certainties([{"GPU": 4}, {"GPU": 4}], [[{"GPU": 3}, {"GPU": 3}, {"GPU": 2}]], used=1)
    assert said == {"resources-busy": Certainty.LIKELY}
