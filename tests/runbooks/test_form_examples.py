"""Each form's examples are its own runbook's."""

from collections import defaultdict

import pytest

from flows.specs import SLUGS, entrypoint
from runbooks.core.knowledge import load_runbook
from tests.runbooks.every import situations


@pytest.fixture(scope="module")
def plans() -> dict[str, set[str]]:
    """The names of the plans that each runbook offers in its own situations."""
    found: dict[str, set[str]] = defaultdict(set)
    for case in situations():
        found[case.runbook] |= {plan.name for plan in case.judge().plans}
    return found


@pytest.mark.parametrize("slug", SLUGS)
def test_the_plan_that_a_form_names_is_one_of_its_runbook(slug: str, plans: dict[str, set[str]]) -> None:
    book = load_runbook(slug)
    assert bool(book.plan) == bool(book.actions)
    assert book.plan in plans[slug] | {""}
    assert (f'for example "{book.plan}"' if book.plan else "offers no plan") in said(slug)


def said(slug: str) -> str:
    """What the form says of `choice`."""
    from deployments.register import load

    doc = str(load(entrypoint(slug)).fn.__doc__)
    return next(line for line in doc.splitlines() if line.strip().startswith("choice:"))
