"""The approval form's text: the whole plan, so that a person can decide without leaving the page."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from runbooks.core.clean import first, one_line
from runbooks.core.distinct import prohibitions
from runbooks.core.plan import Plan, Step
from runbooks.core.show import Markdown, commands_block, joined, markdown, md
from runbooks.core.verdict import Cause, Diagnosis
from runbooks.core.waiting import waits_words

WIDTH = 56  # columns of a command in Prefect's dialog: what is wider would have to be scrolled to
SHORT, LONG = 120, 300  # characters of a name and of a sentence; the report has the whole
WHOLE = 2000  # characters of a reason, an effect or a loss that stand in their place; longer ones go on under Details
ENDLESS = 100_000  # characters of one that no sentence of ours has
MOST = 8  # lines of a list that decides nothing
NOTHING_CHOSEN = markdown("**Resume with nothing chosen rejects.** To allow a plan, set “Decision” to approve below.")
WITHHELD = "Withheld, because part of the job is active:"
FOLD = Markdown("<details><summary>Details: what was seen, what waiting costs</summary>")
GOES_ON = "… [goes on below, under “In full”]"
FOLD_END = Markdown("</details>")


def approval_text(
    title: str,
    target: str,
    diagnosis: Diagnosis,
    plans: tuple[Plan, ...],
    notes: tuple[str, ...],
    risks: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
    width: int = WIDTH,
    times: tuple[datetime, datetime] | None = None,
) -> Markdown:
    """Markdown for the form, and with `width` 0 for a terminal, where commands are pasted from. What decides comes first: what
    is wrong, why a person is asked, and each choice with its exact commands, effect and loss. In the form the details are
    folded, so that its fields stand below the choices. Foreign text is escaped, and cut where nothing is decided by it: it
    cannot push them away. Of a reason, an effect and a loss nothing is left out. `times`: when it was asked, and until when an
    answer counts.
    """
    details = [
        *_in_full(notes, plans),
        *_list("Waiting costs", diagnosis.waiting_costs),
        *_list("Seen", (diagnosis.symptom,) if diagnosis.symptom else ()),
        *(part for cause in diagnosis.wrong[:MOST] for part in _cause(cause, titles or {})),
    ]
    parts = [
        *([NOTHING_CHOSEN] if width else []),
        markdown("## {}: {}", _quoted(title, SHORT), _quoted(target, SHORT)),
        markdown("**{}**", _quoted(diagnosis.headline)),
        *([md(waits_words(*times))] if times else []),
        *_reasons(notes),
        *(part for number, plan in enumerate(plans, 1) for part in _choice(number, plan, risks or {}, width)),
        *_list("Do not", prohibitions(one_line(m, LONG) for m in diagnosis.must_not[: 4 * MOST])),
        *([FOLD, *details, FOLD_END] if width and details else details),
    ]
    return joined("\n\n", parts)


def _quoted(text: str, longest: int = LONG) -> Markdown:
    return md(text, longest) or markdown("(blank)")


def _decisive(text: str) -> Markdown:
    """A text by which a person decides: whole, or its beginning and where all of it stands."""
    line = one_line(text)
    return _quoted(line, 0) if len(line) <= WHOLE else _quoted(line[:WHOLE].rstrip() + GOES_ON, 0)


def _in_full(notes: Iterable[str], plans: Iterable[Plan]) -> Iterator[Markdown]:
    """What `_decisive` could not show whole in its place."""
    texts = [*notes, *(t for p in plans for t in (p.despite, p.why, *(t for s in p.steps for t in (s.effect, s.loses))))]
    lines = [markdown("- {}", _quoted(t, ENDLESS)) for t in dict.fromkeys(map(one_line, texts)) if len(t) > WHOLE]
    if lines:
        yield joined("\n", [markdown("**In full:**\n"), *lines])


def _reasons(notes: Iterable[str]) -> Iterator[Markdown]:
    """Every reason, whole lines: it is what the person is asked about."""
    lines = [markdown("- {}", _decisive(note)) for note in notes]
    if lines:
        yield joined("\n", [markdown("**Asked because:**\n"), *lines])


def _choice(number: int, plan: Plan, risks: Mapping[str, str], width: int) -> Iterator[Markdown]:
    yield markdown("### Choice {}: “{}”", number, _quoted(plan.name))
    if plan.despite:
        yield markdown("**{}** {}. To allow it, choose it by name and give a reason in “Why”.", WITHHELD, _decisive(plan.despite))
    if plan.why:
        yield _decisive(plan.why)
    for i, step in enumerate(plan.steps, 1):
        yield from _step(i, step, risks.get(step.kind, ""), width)


def _step(number: int, step: Step, risk: str, width: int) -> Iterator[Markdown]:
    yield markdown(
        "**Step {}:** {} on {}{}. **Effect:** {}. **Lost:** {}.",
        number,
        _quoted(step.kind, SHORT),
        _quoted(step.owner, SHORT),
        markdown(" (risk: {})", risk) if risk else "",
        _decisive(step.effect),
        _decisive(step.loses),
    )
    yield commands_block(step.commands, width)


def _list(title: str, lines: Iterable[Any]) -> Iterator[Markdown]:
    shown = [markdown("- {}", _quoted(line)) for line in first(lines, MOST)]
    if shown:
        yield joined("\n", [markdown("**{}:**\n", title), *shown])


def _cause(cause: Cause, titles: Mapping[str, str]) -> Iterator[Markdown]:
    yield markdown("**{} ({}):** {}", _quoted(titles.get(cause.slug, cause.slug), SHORT), cause.certainty.value, _quoted(cause.subject))
    lines = [markdown("- {}", _quoted(line)) for line in first(cause.evidence, MOST)]
    if lines:
        yield joined("\n", lines)
