"""Acts on a plan that was allowed: claim, look again, act, look again, and say whether it helped."""

from flows import store
from flows.act import do_claim
from flows.actions import ACTIONS
from flows.claim import Claim, claim_all, release
from flows.guards import take_slot
from flows.run import Run, unchanged
from flows.stopping import wait
from runbooks.core.plan import Plan
from runbooks.core.report import Outcome
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict


def carry_out(run: Run, plan: Plan) -> tuple[Outcome | None, Diagnosis]:
    """Claims, looks again, acts, verifies. (None, diagnosis): the plan changed meanwhile, decide again."""
    permission = run.draft.permission
    about = {
        "runbook_run": run.run_id,
        "runbook": run.spec.slug,
        "target": run.context.target,
        "fleet": run.fleet.name,
        "allowed_by": permission.by if permission else "",
        "who": permission.who if permission else "",
    }
    claims = claim_all(plan, about)
    run.draft.timeline.reached("claimed", f"claimed {', '.join(c.owner for c in claims)}")
    try:
        again = run.look("gathered-again")
        if not any(p.digest == plan.digest for p in again.plans):
            run.draft.guards.append("the plan changed while deciding: nothing was done with the old one")
            return (None, again) if again.plans else (unchanged(run, again), again)
        said = take_slot(run.fleet, run.policy, run.context.target, claims[0].act_run)
        run.draft.timeline.reached("budgeted", said)
        return _act(run, plan, claims), again
    finally:
        release(claims, "not needed")


def _act(run: Run, plan: Plan, claims: tuple[Claim, ...]) -> Outcome:
    run.draft.chosen = plan
    run.draft.timeline.reached("acting", f"acting: {plan.name}")
    order = {step.owner: i for i, step in reversed(list(enumerate(plan.steps)))}
    for claim in sorted(claims, key=lambda c: order[c.owner]):
        record = do_claim(claim, run.context, run.draft.timeline, run.run_id)
        run.draft.acts.append(record.model_copy(update={"digest": plan.digest}))
        if record.outcome != "done":
            break
    run.draft.timeline.reached("acted", f"acts ended: {', '.join(a.outcome for a in run.draft.acts)}")
    wait(run.run_id, plan.settle_s, run.context.sleep)
    after = run.look("verified")
    run.draft.after(run.evidence, after)
    disproved = _disproved(run, plan)
    fixed = _fixed(plan, after) and not disproved
    for claim in claims:
        store.label(claim.act_run, {"verified": "fixed" if fixed else "not-fixed"})
    run.draft.headline = disproved or _closing(plan, after, fixed)
    if run.draft.acts[0].outcome == "refused" and len(run.draft.acts) == 1:
        return Outcome.FIXED if fixed else Outcome.REFUSED
    return Outcome.FIXED if fixed else Outcome.NOT_FIXED


def _fixed(plan: Plan, after: Diagnosis) -> bool:
    """Not seen fixed is not fixed: the causes are gone, and what had to be read was read."""
    left = {c.slug for c in after.wrong}
    return after.state in (Verdict.HEALTHY, Verdict.SICK) and not left & {*plan.for_causes, *plan.also_gone}


def _disproved(run: Run, plan: Plan) -> str:
    """A step that is itself the proof did not succeed: what is read afterwards cannot say more than it."""
    failed = [a for a in run.draft.acts if a.outcome == "failed" and any(k in ACTIONS and ACTIONS[k].proves for k in a.kinds)]
    return f"“{plan.name}” was tried and is not proven: escalate. {'; '.join(failed[0].said[-1:])}" if failed else ""


def _closing(plan: Plan, after: Diagnosis, fixed: bool) -> str:
    if fixed:
        rest = "" if after.state is Verdict.HEALTHY else f"; now: {after.headline}"
        return f"“{plan.name}” worked{rest}"
    return f"“{plan.name}” was tried and the fault is not seen gone: escalate. Now: {after.headline}"
