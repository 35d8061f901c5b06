"""The report of a healthy target fits one screen of a terminal, in every situation of every runbook."""

import pytest

from deployments.cli.display import show_page
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.render import render
from runbooks.core.unmark import without_folds
from runbooks.core.verdict import State
from tests.core.test_tables import of
from tests.deployments.test_display import at_a_terminal, words_of
from tests.runbooks.every import situations

SCREEN = 50  # lines
WIDTH = 160  # columns


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_healthy_report_fits_one_screen(slug: str) -> None:
    well = [case for case in situations() if case.runbook == slug and case.judge().state is State.HEALTHY]
    assert well
    long = {}
    for case in well:
        page = without_folds(render(of(case), load_runbook(slug)))
        lines = words_of(at_a_terminal(lambda page=page: show_page(page), WIDTH)).splitlines()  # type: ignore[misc]
        if len(lines) > SCREEN:
            long[case.title] = len(lines)
    assert long == {}
