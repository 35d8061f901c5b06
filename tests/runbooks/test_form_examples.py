"""Each form's examples are its own runbook's."""

import pytest

from flows.specs import SLUGS, entrypoint
from runbooks.core.knowledge import load_runbook
from tests.runbooks.every import situations


@pytest.mark.parametrize("slug", SLUGS)
def test_the_plan_that_a_form_names_is_one_of_its_runbook(slug: str) -> None:
    """It is offered in one of the runbook's own situations."""
    book = load_runbook(slug)
    plans = {plan.name for case in situations() if case.runbook == slug for plan in case.judge().plans}
    assert bool(book.plan) == bool(book.actions)
    assert book.plan in plans | {""}
    assert (f'for example "{book.plan}"' if book.plan else "offers no plan") in said(slug)


def said(slug: str) -> str:
    """What the form says of `choice`."""
    from deployments.register import load

    doc = str(load(entrypoint(slug)).fn.__doc__)
    return next(line for line in doc.splitlines() if line.strip().startswith("choice:"))
