"""Acts on a plan that was allowed: claim, look and judge again, act in the plan's order, look again, say whether it helped."""

from dataclasses import dataclass, field

from flows import store
from flows.engine.action_run import do_claim
from flows.engine.actions import ACTIONS
from flows.engine.ends import in_words
from flows.engine.gate import May
from flows.engine.guards import take_slot
from flows.engine.judging import files_allow, gate_of, read_files_again
from flows.engine.lock import Claim, claim_all, release, used_by
from flows.engine.run import Run
from flows.engine.steps import deliver
from flows.engine.stopping import wait
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan
from runbooks.core.refusal import Code, Refusal
from runbooks.core.report import ActRecord, steps_left
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict
from tasks.context import Refused


def carry_out(run: Run, plan: Plan) -> tuple[Outcome | None, Diagnosis]:
    """Claims, looks and judges again, acts, verifies. (None, diagnosis): what was allowed is not so any more, decide again."""
    permission = run.draft.permission
    about = {
        "runbook_run": run.run_id,
        "runbook": run.spec.slug,
        "target": run.context.target,
        "fleet": run.fleet.name,
        "allowed_by": permission.by if permission else "",
        "who": permission.who if permission else "",
    }
    claims = claim_all(plan, about, run.context)
    run.draft.guards.extend(c.place.doubt for c in claims if c.place.doubt and c.place.doubt not in run.draft.guards)
    run.draft.timeline.reached("claimed", f"claimed {', '.join(c.owner for c in claims)}")
    try:
        if used_by(run.run_id, plan.digest):  # asked under the lock: nobody else can begin it now
            raise Refused(Code.APPROVAL_SPENT, "this run has already started this plan once; its approval is used up")
        read_files_again(run)
        again = run.look("gathered-again")
        if not _still_so(run, plan, again):
            return None, again
        said = take_slot(run.fleet, run.policy, run.context.target, claims[0].act_run, _machine(run, claims))
        run.draft.timeline.reached("budgeted", said)
        return _act(run, plan, claims), again
    finally:
        release(claims, "not needed")


def _machine(run: Run, claims: tuple[Claim, ...]) -> tuple[str, ...]:
    """What the target's machine is known by; nothing where the target is no owner."""
    return next((c.place.marks for c in claims if c.owner == run.context.target), ())


def _still_so(run: Run, plan: Plan, again: Diagnosis) -> bool:
    """The whole gate once more, with what is read now: the plan's steps, its cause's certainty, policy, hands off, history."""
    if not any(p.digest == plan.digest for p in (*again.plans, *again.knowingly)):
        run.draft.refused(
            Refusal(code=Code.TARGET_CHANGED, why="the plan changed during the decision; the old one was not carried out")
        )
        return False
    gate = gate_of(run, again, plan.name)
    person = run.draft.permission is not None and run.draft.permission.by == "person"
    if any(p.digest == plan.digest for p in gate.plans) and (gate.may is May.ACT or (person and gate.may is May.ASK)):
        return True
    said = f"judged again right before acting: {'; '.join(map(str, gate.why)) or 'no longer allowed'}"
    run.draft.refused(*gate.why, said=said)
    return False


@dataclass
class Work:
    """One plan being carried out: each owner's steps are an act run of its own, all steps go in the plan's order."""

    run: Run
    plan: Plan
    claims: tuple[Claim, ...]
    started: list[str] = field(default_factory=list)
    records: dict[str, ActRecord] = field(default_factory=dict)

    def places(self, owner: str) -> list[int]:
        """Where the steps of an owner stand in the plan."""
        return [i for i, step in enumerate(self.plan.steps) if step.owner == owner]

    def up_to(self, place: int) -> bool:
        """Does what comes before that place and has not begun. False: a step was not done, so nothing may follow it."""
        for claim in sorted(self.claims, key=lambda c: self.places(c.owner)[0]):
            if claim.owner in self.started or self.places(claim.owner)[0] >= place:
                continue
            self.started.append(claim.owner)
            record = self._do(claim)
            self.records[claim.owner] = record.model_copy(update={"digest": self.plan.digest})
            if record.outcome != "done":
                return False
        return all(r.outcome == "done" for r in self.records.values())

    def _do(self, claim: Claim) -> ActRecord:
        places, run = self.places(claim.owner), self.run
        return do_claim(
            claim,
            run.context,
            run.draft.timeline,
            run.run_id,
            run.execution,
            before=lambda i: self.up_to(places[i]),
            allowed=lambda: files_allow(run, self.plan),
        )

    @property
    def acts(self) -> list[ActRecord]:
        """What was done, in the order of the first steps."""
        return [self.records[owner] for owner in self.started if owner in self.records]


def _act(run: Run, plan: Plan, claims: tuple[Claim, ...]) -> Outcome:
    run.draft.chosen = plan
    run.draft.timeline.reached("acting", f"acting: {plan.name}")
    work = Work(run, plan, claims)
    try:
        work.up_to(len(plan.steps))
    finally:
        run.draft.acts.extend(work.acts)
        run.draft.refused(*(a.refused for a in work.acts if a.refused), said="")
    run.draft.timeline.reached("acted", f"actions ended: {', '.join(a.outcome for a in work.acts)}")
    wait(run.run_id, plan.settle_s, run.context.sleep)
    after = run.look("verified")
    run.draft.after(run.evidence, after)
    disproved = _disproved(run, plan)
    gone = _gone(plan, after) and not disproved
    _note_verified(run, work, gone)
    outcome = outcome_of(plan, work.acts, after, gone)
    run.draft.headline = disproved or _closing(plan, work.acts, after, outcome)
    return outcome


def outcome_of(plan: Plan, acts: list[ActRecord], after: Diagnosis, gone: bool) -> Outcome:
    """Fixed needs both: every step was done, and the fault is seen gone."""
    left = steps_left(plan, acts)
    if not left:
        return Outcome.FIXED if gone else Outcome.NOT_FIXED
    if len(left) == len(plan.steps) and all(end in ("refused", "not begun") for _, _, end in left):
        return Outcome.HEALTHY if after.state is Verdict.HEALTHY else Outcome.REFUSED  # nothing was changed by us
    return Outcome.PARTLY_FIXED if gone else Outcome.NOT_FIXED


def _gone(plan: Plan, after: Diagnosis) -> bool:
    """Not seen gone is not gone: the causes are not there any more, and what had to be read was read."""
    left = {c.slug for c in after.wrong}
    return after.state in (Verdict.HEALTHY, Verdict.SICK) and not left & {*plan.for_causes, *plan.also_gone}


def _note_verified(run: Run, work: Work, gone: bool) -> None:
    """On each act run, whether it was done and seen to help: what is not noted counts as not seen to help."""
    for claim in work.claims:
        record = work.records.get(claim.owner)
        if record is None:
            continue
        helped = gone and record.outcome == "done"
        try:
            store.label(claim.act_run, {"verified": "fixed" if helped else "not-fixed"})
            deliver(claim.act_run)
        except Exception as e:
            run.draft.guards.append(f"the result of the action on {claim.owner} could not be recorded on its run: {in_words(e)}")


def _disproved(run: Run, plan: Plan) -> str:
    """A step that is itself the proof did not succeed: what is read afterwards cannot say more than it."""
    failed = [a for a in run.draft.acts if a.outcome == "failed" and any(k in ACTIONS and ACTIONS[k].proves for k in a.kinds)]
    return f"“{plan.name}” was tried, but success is not proven: escalate. {'; '.join(failed[0].said[-1:])}" if failed else ""


def _closing(plan: Plan, acts: list[ActRecord], after: Diagnosis, outcome: Outcome) -> str:
    rest = "" if after.state is Verdict.HEALTHY else f"; now: {after.headline}"
    if outcome is Outcome.FIXED:
        return f"“{plan.name}” worked{rest}"
    undone = "; ".join(f"step {n} ({step.kind}): {end}" for n, step, end in steps_left(plan, acts))
    last = next((a.said[-1] for a in reversed(acts) if a.outcome != "done" and a.said), "")
    why = undone + (f" ({last})" if last else "")
    if outcome is Outcome.PARTLY_FIXED:
        return f"the fault is gone, but “{plan.name}” was not completed: {why}{rest}"
    if outcome in (Outcome.HEALTHY, Outcome.REFUSED):
        return f"nothing was changed: {why}; now: {after.headline}"
    return f"“{plan.name}” was tried, but the fault is not shown to be gone: escalate. Now: {after.headline}"
