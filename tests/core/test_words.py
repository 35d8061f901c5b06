"""What a person reads, over every situation of the tests: causes by title, remedies shown, nothing said twice or in the wrong place."""

import re
from collections import Counter
from functools import cache

import pytest

from runbooks.core.distinct import names_of
from runbooks.core.judgment import filled
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.outcome import Outcome, outcome_of
from runbooks.core.render import do_now, render
from runbooks.core.report import Report
from runbooks.core.show import md
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.core.worded import CHOOSE, is_prohibition, worded
from tests.core.samples import report
from tests.runbooks.every import Situation, situations

SLUGS = sorted({s.runbook for s in situations()})
FINITE = re.compile(r"(?i)\b(?:is|are|was|were|has|have|died|dies|lives|looks|looked|failed|fails|runs|ran|hangs)\b")
SECTION = re.compile(r"^## (.+)$", re.M)


@cache
def judged(slug: str) -> tuple[tuple[Situation, Diagnosis], ...]:
    return tuple((s, s.judge()) for s in situations() if s.runbook == slug)


def of(slug: str, found: Diagnosis, outcome: Outcome | None = None, after: Diagnosis | None = None) -> Report:
    """A report with that verdict; its evidence is not what is looked at here."""
    book = load_runbook(slug)
    outcome = outcome or outcome_of(found.state)
    chosen = found.plans[0] if outcome is Outcome.FIXED else None
    return report(
        runbook=slug, title=book.title, headline=found.headline, diagnosis=found, outcome=outcome, evidence={}, after=after,
        chosen=chosen, approve_command="",
    )  # fmt: skip


def sections(page: str) -> dict[str, str]:
    parts = SECTION.split(page)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("slug", SLUGS)
def test_no_text_names_a_cause_by_its_slug(slug: str) -> None:
    book = load_runbook(slug)
    names = [s for s in book.causes if "-" in s]
    of_a_cause = re.compile(rf"(?:(?<=^)|(?<=: )|(?<=\())(?:{'|'.join(book.causes)})(?=:\s)|(?<![\w./-])(?:{'|'.join(names)})(?![\w./-])")
    for case, found in judged(slug):
        told = [found.headline, *found.do_now, *found.must_not, *(f.issue for f in found.findings)]
        for text in told:
            for title in book.causes.values():
                text = text.replace(title.title, "")
            assert not of_a_cause.search(text), (case.title, text)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_cause_is_told_with_its_remedy(slug: str) -> None:
    book = load_runbook(slug)
    for case, found in judged(slug):
        if found.state not in (State.UNHEALTHY, State.CANNOT_TELL):
            continue
        page = render(of(slug, found), book)
        assert "the runbook's remedy" not in page
        assert "remedy in the runbook" not in page
        for cause in found.wrong:
            spoken_against = {kind for c in found.causes if c.slug == cause.slug for kind in c.withheld}
            text = book.causes[cause.slug].remedy_without(spoken_against)
            assert any(md(t) in page for t in (text, filled(text, cause))), (case.title, cause.slug)


@pytest.mark.parametrize("slug", SLUGS)
def test_what_must_not_be_done_is_no_action(slug: str) -> None:
    for case, found in judged(slug):
        told = [*do_now(of(slug, found)), *(f.action for f in found.findings)]
        assert [x for x in told if is_prohibition(str(x))] == [], case.title


def test_a_prohibition_among_the_actions_is_moved_to_where_it_belongs() -> None:
    said = Diagnosis(state=State.UNHEALTHY, headline="x", do_now=("Do not reset it: it is shared.", "Ask ops."))
    found = worded(load_runbook("zombie-gpu"), said)
    assert found.do_now == ("Ask ops.",)
    assert found.must_not == ("Do not reset it: it is shared.",)


@pytest.mark.parametrize("slug", SLUGS)
def test_only_plans_on_offer_are_there_to_choose(slug: str) -> None:
    for case, found in judged(slug):
        told = [x.removeprefix(CHOOSE) for x in found.do_now if x.startswith(CHOOSE)]
        assert told in ([], [names_of([p.name for p in found.plans])]), case.title
        assert found.plans or not told, case.title


def test_a_plan_that_was_withheld_is_not_there_to_choose() -> None:
    said = Diagnosis(state=State.UNHEALTHY, headline="x", do_now=(f"{CHOOSE}clean up only", "Ask ops."))
    assert worded(load_runbook("zombie-gpu"), said).do_now == ("Ask ops.",)


@pytest.mark.parametrize("slug", SLUGS)
def test_cannot_tell_is_said_once(slug: str) -> None:
    for case, found in judged(slug):
        if found.state is State.CANNOT_TELL:
            assert "cannot tell" not in found.headline.lower()[:60], case.title
            first = next(line for line in render(of(slug, found), load_runbook(slug)).splitlines() if line.startswith("**"))
            assert first.lower().count("cannot tell") == 1, first


@pytest.mark.parametrize("slug", SLUGS)
def test_each_proof_is_told_once(slug: str) -> None:
    for case, found in judged(slug):
        why = sections(render(of(slug, found), load_runbook(slug))).get("Why", "").partition("Ruled out:")[0]
        lines = [line for line in why.splitlines() if line.startswith("- ")]
        proofs = [line for line in lines if line[2:] in {str(md(e)) for c in found.causes for e in c.evidence}]
        assert [line for line, count in Counter(proofs).items() if count > 1] == [], case.title


@pytest.mark.parametrize("slug", SLUGS)
def test_nothing_stays_open_under_fixed(slug: str) -> None:
    """What the world before asked for is over; what the world after asks for is shown."""
    well = Diagnosis(state=State.HEALTHY, headline="all is well")
    for case, found in judged(slug):
        if not found.plans:
            continue
        page = render(of(slug, found, Outcome.FIXED, well), load_runbook(slug))
        shown = sections(page)
        assert shown["Do now"].strip() == "- Nothing.", case.title
        assert not {"Findings", "Do NOT", "By hand", "What waiting costs"} & set(shown), case.title
        assert "What would decide it" not in page
        assert "Remedy" not in page
        asks = well.model_copy(update={"do_now": ("Ask ops.",), "must_not": ("Do not stop.",)})
        after = sections(render(of(slug, found, Outcome.FIXED, asks), load_runbook(slug)))
        assert (after["Do now"].strip(), after["Do NOT"].strip()) == ("- Ask ops.", "- Do not stop.")


def test_a_title_names_and_judges_nothing() -> None:
    """It stands before every verdict, also before "Nothing is wrong"."""
    titles = [load_runbook(slug).title for slug in runbook_slugs()]
    assert [t for t in titles if FINITE.search(t) or "," in t or len(t.split()) > 5] == []


def test_a_cause_that_is_still_there_is_named_by_its_title() -> None:
    case, found = next((c, d) for c, d in judged("zombie-gpu") if d.plans and d.wrong)
    page = render(of("zombie-gpu", found, Outcome.NOT_FIXED, found), load_runbook("zombie-gpu"))
    title = load_runbook("zombie-gpu").causes[found.wrong[0].slug].title
    assert f"- still there: {md(title)} (" in page, case.title
    assert found.wrong[0].certainty is not Certainty.RULED_OUT
