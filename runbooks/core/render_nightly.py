"""The nightly report to Markdown."""

from collections.abc import Sequence

from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.nightly import Change, NightlyReport, Result, Trouble
from runbooks.core.node_basics import alike
from runbooks.core.outcome import Outcome
from runbooks.core.render import count, environment, tidy
from runbooks.core.show import Markdown

FEW = 20  # lines of what is well


def render_nightly(report: NightlyReport) -> Markdown:
    """The nightly report as Markdown: first what needs a person, last what the sweep cost."""
    by = {change: [t for t in report.troubles if t.change is change] for change in Change}
    others = dict.fromkeys(r.node for r in report.results if r.node not in report.nodes)
    lines = [(n, [r for r in report.results if r.node == n]) for n in (*report.nodes, *others)]
    needs = [r for r in report.results if r.outcome.exit_code == 1]
    closed = _quarantined(report)
    text = (
        environment()
        .get_template("nightly.md.j2")
        .render(
            r=report,
            word=_word,
            fault=_fault,
            outcomes=_outcomes,
            headline=nightly_headline(report),
            needs=needs,
            by=by,
            lines=[(node, node_says(results) + (", quarantined" if node in closed else ""), results) for node, results in lines],
            remarks=alike(report.looks),
            blind=[r for r in report.results if not r.answered],
            well=_well(report),
        )
    )
    return tidy(text)


def _well(report: NightlyReport) -> list[Result]:
    """What needs nobody, in words, where there is little enough of it to be read."""
    found = [r for r in report.results if r.answered and r.outcome.exit_code == 0]
    return found if len(found) <= FEW else []


def _quarantined(report: NightlyReport) -> list[str]:
    return [look.node for look in report.looks if look.quarantined]


def nightly_headline(report: NightlyReport) -> str:
    """One line: how many nodes need a person, how many could not be entered or read."""
    faulty = {r.node for r in report.results if r.outcome.exit_code == 1}
    named = {line.partition(":")[0] for line in report.not_read} & set(report.nodes)
    shut = {r.node for r in report.results if r.shut}
    unread = ({r.node for r in report.results if not r.answered} | named) - shut
    down, wrong = ([s.name for s in report.systems if s.wrong and s.reachable is there] for there in (False, True))
    parts = [f"{len(faulty)} of {count(len(report.nodes), 'node')} need{'s' if len(faulty) == 1 else ''} a person"] if faulty else []
    if shut:
        parts.append(f"{len(shut)} could not be entered")
    if not parts:
        parts.append("No fault found in what was read" if unread else "Nothing needs a person")
    if unread:
        parts.append(f"{len(unread)} could not be read in full")
    if closed := _quarantined(report):
        parts.append(f"{len(closed)} quarantined")
    if down:
        parts.append(f"no answer from {', '.join(dict.fromkeys(down))}")
    if wrong:
        parts.append(f"at fault: {', '.join(dict.fromkeys(wrong))}")
    return "; ".join(parts)


def node_says(results: Sequence[Result]) -> str:
    """A node's one word, the worst of its runbooks."""
    if not results:
        return "not looked at"
    found = {r.outcome for r in results}
    if any(o.exit_code == 1 for o in found):
        return "needs a person"
    if any(not r.answered for r in results):
        return "cannot tell"
    return "healthy" if any(o.row.well for o in found) else "nothing here to judge"


def _outcomes(results: Sequence[Result]) -> str:
    return ", ".join(f"{r.runbook}: {_word(r.outcome)}" for r in results)


def _word(outcome: Outcome) -> str:
    return outcome.row.name.lower()


def _fault(trouble: Trouble) -> str:
    """The cause's title and what was seen; a record may name a runbook or a cause that is no more."""
    known = load_runbook(trouble.runbook).causes if trouble.runbook in runbook_slugs() else {}
    title = known[trouble.cause].title if trouble.cause in known else trouble.cause.replace("-", " ")
    said = str(trouble.headline)
    return said if title in said else f"{title}: {said}" if said else title
