"""The approval form's text: the whole plan, so that a person can decide without leaving the page."""

from runbooks.core.distinct import prohibitions
from runbooks.core.plan import Plan
from runbooks.core.verdict import Diagnosis


def approval_text(
    title: str, target: str, diagnosis: Diagnosis, plans: tuple[Plan, ...], notes: tuple[str, ...]
) -> str:
    """Markdown for the form: verdict, evidence, must-nots, each choice with commands, effect and loss."""
    lines = [f"## {title}: {target}", f"**{diagnosis.headline}**", ""]
    for cause in diagnosis.wrong:
        lines.append(f"- {cause.slug} ({cause.certainty}): {cause.subject}")
        lines += [f"    - {e}" for e in cause.evidence]
    if diagnosis.must_not:
        lines += ["", "**Do not:**", "", *(f"- {m}" for m in prohibitions(diagnosis.must_not))]
    if diagnosis.waiting_costs:
        lines += ["", "**Waiting costs:** " + "; ".join(diagnosis.waiting_costs)]
    for plan in plans:
        lines += ["", *_plan_lines(plan)]
    if notes:
        lines += ["", "**Asked because:** " + "; ".join(notes)]
    return "\n".join(lines)


def _plan_lines(plan: Plan) -> list[str]:
    lines = [f"### Choice “{plan.name}”" + (f": {plan.why}" if plan.why else "")]
    for i, step in enumerate(plan.steps, 1):
        lines.append(f"{i}. {step.kind} on {step.owner}. Effect: {step.effect}. Lost: {step.loses}.")
        lines += ["", "```", *step.commands, "```"]
    return lines
