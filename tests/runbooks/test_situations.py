"""Situations in the common form: tests/runbooks/FOLDER/situations.yaml, without a test of its own beside it. Found by folder.

One YAML document each: `title`; `commands`, each command line that the runbook runs with what the node answers (the output, or
{exit, out, err}, or where no answer came {lost: timed-out} or another value of `UnknownReason`, such as tool-missing); `limits` to
change for it; and what is expected of the verdict: `state`, `causes` ("slug certainty", in order), and a piece of the `headline`.
So reading and judging are tried together.
"""

from runbooks.core.knowledge import load_runbook
from tests.runbooks.every import Situation, answered, by_folder, situations


def written() -> list[tuple[Situation, dict[str, object]]]:
    """Every situation in the common form, with what it expects."""
    expected = {(slug, doc["title"]): doc["expect"] for slug in by_folder() for doc in answered(slug)}
    return [(case, expected[case.runbook, case.title]) for case in situations() if (case.runbook, case.title) in expected]


def test_each_situation_is_judged_as_it_expects() -> None:
    wrong = []
    for case, expected in written():
        found = case.judge()
        got = {"state": found.state.value, "causes": [f"{c.slug} {c.certainty}" for c in found.causes]}
        want = {"state": expected["state"], "causes": expected.get("causes", [])}
        if got != want or str(expected.get("headline", "")) not in found.headline:
            wrong.append(f"{case.runbook}: {case.title}: expected {expected}, got {got}: {found.headline}")
    assert wrong == []


def test_they_hold_every_cause_a_healthy_node_and_a_lost_reading() -> None:
    for slug in by_folder():
        mine = [(case, case.judge()) for case, _ in written() if case.runbook == slug]
        assert len({case.title for case, _ in mine}) == len(answered(slug)), f"{slug}: a title stands twice"
        assert {d.state.value for _, d in mine} >= {"healthy", "sick", "cannot-tell"}, slug
        assert {c.slug for _, d in mine for c in d.causes} == set(load_runbook(slug).causes), slug
