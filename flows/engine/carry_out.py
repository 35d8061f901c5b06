"""Carries out an allowed plan: lock, observe and judge again, act in the plan's order, observe again, say whether it helped."""

from dataclasses import dataclass, field

from flows import store
from flows.engine.action_run import do_locked_steps
from flows.engine.actions import ACTIONS
from flows.engine.ends import in_words
from flows.engine.gate import lets, offers
from flows.engine.guards import take_budget_token
from flows.engine.judging import files_allow, gate_of, read_files_again
from flows.engine.lock import Lock, lock_all, release, used_by
from flows.engine.run import Run
from flows.engine.shown import acted, decided, locked
from flows.engine.steps import deliver
from flows.engine.stopping import wait
from runbooks.core.confirmed import unseen
from runbooks.core.fixed import ended_as, failed_proof, seen_gone, steps_left
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.report import ActionRecord
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict
from tasks.context import ActionRefused


def carry_out(run: Run, plan: Plan) -> tuple[Outcome | None, Diagnosis]:
    """Locks, observes and judges again, acts, verifies. (None, diagnosis): what was allowed is not so any more, decide again."""
    permission = run.record.permission
    about = {
        "runbook_run": run.run_id,
        "runbook": run.spec.slug,
        "target": run.context.target,
        "fleet": run.fleet.name,
        "allowed_by": permission.by if permission else "",
        "who": permission.who if permission else "",
    }
    locks = locked(plan, lambda: lock_all(plan, about, run.context))
    run.record.guards.extend(c.place.doubt for c in locks if c.place.doubt and c.place.doubt not in run.record.guards)
    run.record.timeline.reached("claimed", f"claimed {', '.join(c.owner for c in locks)}")
    try:
        if used_by(run.run_id, plan.digest):  # asked under the lock: nobody else can begin it now
            raise ActionRefused(RefusalCode.APPROVAL_SPENT, "this run has already started this plan once; its approval is used up")
        read_files_again(run)
        again = run.observe("gathered-again", "right before the action")
        if not _still_so(run, plan, again):
            return None, again
        said = take_budget_token(run.fleet, run.policy, run.context.target, locks[0].act_run, _machine(run, locks))
        run.record.timeline.reached("budgeted", said)
        return _run_plan(run, plan, locks, again), again
    finally:
        release(locks, "not needed")


def _machine(run: Run, locks: tuple[Lock, ...]) -> tuple[str, ...]:
    """What the target's machine is known by; nothing where the target is no owner."""
    return next((c.place.marks for c in locks if c.owner == run.context.target), ())


def _still_so(run: Run, plan: Plan, again: Diagnosis) -> bool:
    """The whole gate once more, with what is read now: the plan's steps, its cause's certainty, policy, hands off, history."""
    if not offers(again, plan):
        run.record.refused(
            Refusal(code=RefusalCode.TARGET_CHANGED, why="the plan changed during the decision; the old one was not carried out")
        )
        return False
    gate = decided(lambda: gate_of(run, again, plan.name))
    person = run.record.permission is not None and run.record.permission.by == "person"
    if lets(gate, plan, person):
        return True
    said = f"judged again right before acting: {'; '.join(map(str, gate.why)) or 'no longer allowed'}"
    run.record.refused(*gate.why, said=said)
    return False


@dataclass
class PlanRun:
    """One plan being carried out: each owner's steps are an action run of its own, all steps go in the plan's order."""

    run: Run
    plan: Plan
    locks: tuple[Lock, ...]
    started: list[str] = field(default_factory=list)
    records: dict[str, ActionRecord] = field(default_factory=dict)

    def places(self, owner: str) -> list[int]:
        """Where the steps of an owner stand in the plan."""
        return [i for i, step in enumerate(self.plan.steps) if step.owner == owner]

    def up_to(self, place: int) -> bool:
        """Does what comes before that place and has not begun. False: a step was not done, so nothing may follow it."""
        for lock in sorted(self.locks, key=lambda c: self.places(c.owner)[0]):
            if lock.owner in self.started or self.places(lock.owner)[0] >= place:
                continue
            self.started.append(lock.owner)
            record = self._do(lock)
            self.records[lock.owner] = record.model_copy(update={"digest": self.plan.digest})
            if record.outcome != "done":
                return False
        return all(r.outcome == "done" for r in self.records.values())

    def _do(self, lock: Lock) -> ActionRecord:
        places, run = self.places(lock.owner), self.run
        given = (lock, run.context, run.record.timeline, run.run_id, run.execution)
        return acted(
            lock.owner,
            lambda: do_locked_steps(
                *given, before=lambda i: self.up_to(places[i]), allowed=lambda: files_allow(run, self.plan)
            ),
        )

    @property
    def acts(self) -> list[ActionRecord]:
        """What was done, in the order of the first steps."""
        return [self.records[owner] for owner in self.started if owner in self.records]


def _run_plan(run: Run, plan: Plan, locks: tuple[Lock, ...], before: Diagnosis) -> Outcome:
    run.record.chosen = plan
    run.record.timeline.reached("acting", f"acting: {plan.name}")
    work = PlanRun(run, plan, locks)
    try:
        work.up_to(len(plan.steps))
    finally:
        run.record.acts.extend(work.acts)
        run.record.refused(*(a.refused for a in work.acts if a.refused), said="")
    run.record.timeline.reached("acted", f"actions ended: {', '.join(a.outcome for a in work.acts)}")
    wait(run.run_id, plan.settle_s, run.context.sleep)
    after = run.observe("verified", "proof")
    run.record.after(run.evidence, after)
    disproved = _disproved(run, plan)
    blind = unseen(load_runbook(run.spec.slug), plan, before, run.evidence) if run.evidence is not None else ()
    gone = seen_gone(plan, after, blind) and not disproved
    _note_verified(run, work, gone)
    outcome = ended_as(plan, work.acts, after, gone)
    run.record.headline = disproved or _closing(plan, work.acts, after, outcome)
    return outcome


def _note_verified(run: Run, work: PlanRun, gone: bool) -> None:
    """On each action run, whether it was done and seen to help: what is not noted counts as not seen to help."""
    for lock in work.locks:
        record = work.records.get(lock.owner)
        if record is None:
            continue
        helped = gone and record.outcome == "done"
        try:
            store.label(lock.act_run, {"verified": (Outcome.FIXED if helped else Outcome.NOT_FIXED).value})
            deliver(lock.act_run)
        except Exception as e:
            run.record.guards.append(f"the result of the action on {lock.owner} could not be recorded on its run: {in_words(e)}")


def _disproved(run: Run, plan: Plan) -> str:
    """A step that is itself the proof did not succeed."""
    failed = failed_proof(run.record.acts, [kind for kind, action in ACTIONS.items() if action.proves])
    return f"“{plan.name}” was tried, but success is not proven: escalate. {'; '.join(failed.said[-1:])}" if failed else ""


def _closing(plan: Plan, acts: list[ActionRecord], after: Diagnosis, outcome: Outcome) -> str:
    rest = "" if after.state is Verdict.HEALTHY else f"; now: {after.headline}"
    if outcome is Outcome.FIXED:
        return f"“{plan.name}” worked"
    if outcome is Outcome.PARTLY_FIXED and not steps_left(plan, acts):
        return f"“{plan.name}” worked, but something else is wrong{rest}"
    undone = "; ".join(f"step {n} ({step.kind}): {end}" for n, step, end in steps_left(plan, acts))
    last = next((a.said[-1] for a in reversed(acts) if a.outcome != "done" and a.said), "")
    why = undone + (f" ({last})" if last else "")
    if outcome is Outcome.PARTLY_FIXED:
        return f"the fault is gone, but “{plan.name}” was not completed: {why}{rest}"
    if outcome in (Outcome.HEALTHY, Outcome.REFUSED):
        return f"nothing was changed: {why}; now: {after.headline}"
    return f"“{plan.name}” was tried, but the fault is not shown to be gone: escalate. Now: {after.headline}"
