"""What a rehearsal shows: one screen a step. The whole report is a file that is named."""

from typing import Any

from deployments.cli.display import show_heading, show_lines, show_outcome, show_page
from deployments.cli.summary import report_at
from deployments.lab.scenario import Scene
from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan
from runbooks.core.report import Report
from runbooks.core.show import Markdown, commands_block, joined, markdown, md
from runbooks.core.verdict import Cause

STEPS = 4
CAUSES, PROOFS, CHANGES = 2, 4, 6  # lines that a screen has room for; the report has them all


def broken(scene: Scene) -> None:
    """What is broken, and the command that looks at it."""
    _step(1, "What is broken")
    command = f"gpu-runbooks run {scene.runbook} {scene.target} --mode approve"
    asks = md("This command diagnoses it, and asks before it changes anything:")
    show_page(joined("\n\n", [md(scene.story), asks, commands_block([command])]))


def looked(facts: dict[str, Any]) -> None:
    """What the look says, in short."""
    _step(2, "What the diagnosis says")
    _ended(facts)
    report = report_at(facts["report"])
    if report:
        known = load_runbook(report.runbook).causes
        for cause in report.diagnosis.wrong[:CAUSES]:
            show_page(_cause(cause, known[cause.slug].title if cause.slug in known else cause.slug))
    _file(facts)


def asked(facts: dict[str, Any], choice: str) -> None:
    """The question about one plan, from the report that asks it; its prompt stands right below."""
    _step(3, "The question")
    report = report_at(facts["report"])
    plans = report.diagnosis.plans if report else ()
    plan = next((p for p in plans if p.name == choice), None)
    if report and plan:
        show_page(_question(report, plan), Outcome.WAITING)
    others = [p.name for p in plans if p.name != choice]
    if others:
        show_lines(["", f"Also offered, not in this rehearsal: {'; '.join(others)}."])
    show_lines([""])


def proved(facts: dict[str, Any], proof: str) -> None:
    """How it ended, and what the world outside of the engine says."""
    _step(4, "The proof")
    _ended(facts)
    report = report_at(facts["report"])
    done = [line for act in (report.acts if report else ()) for line in (f"{act.outcome}: {', '.join(act.kinds)}", *act.said)]
    show_page(joined("\n", [*(markdown("- {}", line) for line in done[:CHANGES]), markdown("\n**Seen outside the engine:** {}", proof)]))
    _file(facts)


def _step(number: int, title: str) -> None:
    show_heading(f" {number} of {STEPS}  {title} ")


def _ended(facts: dict[str, Any]) -> None:
    outcome = Outcome(facts["outcome"]) if facts["outcome"] else None
    show_outcome(outcome, outcome.row.name if outcome else str(facts["state"]), facts["headline"])


def _file(facts: dict[str, Any]) -> None:
    if facts["report"]:
        show_lines(["", f"whole report: {facts['report']}"])


def _cause(cause: Cause, title: str) -> Markdown:
    lines = [markdown("- {}", line) for line in cause.evidence[:PROOFS]]
    return joined("\n", [markdown("**{}** ({}): {}", title, cause.certainty.value, cause.subject), *lines])


def _question(report: Report, plan: Plan) -> Markdown:
    """What decides; what was seen stands on the screen before."""
    short = report.diagnosis.model_copy(update={"causes": (), "symptom": "", "waiting_costs": ()})
    return approval_text(report.title, report.target, short, (plan,), (), report.risks, width=0)
