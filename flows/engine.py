"""Runs a runbook: gather, diagnose, gate, approve, claim, gather and diagnose again, act, verify, report."""

import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import Pause

from flows import store
from flows.act import do_claim
from flows.actions import risks
from flows.approval import ask, given
from flows.claim import Claim, Locked, claim_all, history_of, release
from flows.gate import Gate, May, decide, risk_of
from flows.guards import GuardSaidNo, check_breaker, check_freeze, take_slot
from flows.outcomes import Draft, end_state, publish
from flows.ownership import heartbeat, own_run
from flows.spec import RunbookSpec
from flows.storm import look_for_storm
from runbooks.core.fleet import Fleet
from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Plan, Risk
from runbooks.core.policy import Mode, Policy
from runbooks.core.report import Outcome, Permission
from runbooks.core.verdict import Diagnosis
from runbooks.core.verdict import State as Verdict
from tasks.context import Context
from tasks.transport.open import HostPool


@dataclass
class Run:
    """One run of one runbook on one target, on its way through the engine."""

    spec: RunbookSpec
    fleet: Fleet
    policy: Policy
    context: Context
    mode: Mode
    choice: str
    run_id: str
    draft: Draft
    looks: int = 0
    evidence: Any = None
    diagnosis: Diagnosis | None = None
    notes: list[str] = field(default_factory=list)

    def look(self, point: str = "gathered") -> Diagnosis:
        """Reads the target and judges it, as two tasks."""
        self.looks += 1
        name = f"{self.context.target}" + (f" (look {self.looks})" if self.looks > 1 else "")
        self.evidence = read_target.with_options(task_run_name=f"read {name}")(self.spec, self.context)
        self.draft.timeline.reached(point, f"read {self.context.target}")
        limits = self.spec.limits.model_validate(self.context.limits)
        self.diagnosis = judge_target.with_options(task_run_name=f"judge {name}")(self.spec, self.evidence, limits)
        self.draft.timeline.reached("judged", self.diagnosis.headline)
        return self.diagnosis


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
def read_target(spec: RunbookSpec, context: Context) -> Any:
    """Reads everything the runbook needs. Changes nothing."""
    return spec.gather(context)


@task(cache_policy=NO_CACHE, retries=0, persist_result=False)
def judge_target(spec: RunbookSpec, evidence: Any, limits: Any) -> Diagnosis:
    """Judges the evidence. No input or output."""
    return spec.diagnose(evidence, limits)


def run_runbook(run: Run, pool: HostPool) -> State[Any]:
    """The whole run, with a report in every case. Called from inside the runbook's flow."""
    own_run(run.run_id, run.draft.tags)
    run.draft.timeline.reached("started", f"{run.spec.slug} on {run.context.target}, mode {run.mode}")
    try:
        with heartbeat(run.run_id):
            outcome = _conduct(run)
    except Pause:
        raise
    except BaseException as e:
        run.draft.crashed = "".join(traceback.format_exception_only(e)).strip()
        _say_where_it_stands(run)
        publish(run, Outcome.CANNOT_TELL, f"the run itself failed: {run.draft.crashed}", pool)
        raise
    return end_state(outcome, publish(run, outcome, run.draft.headline, pool))


def _say_where_it_stands(run: Run) -> None:
    begun = [a for a in run.draft.acts if a.outcome != "not-started"]
    run.draft.guards.append(
        f"this run failed after {len(begun)} act(s); look at the target before anything else"
        if begun
        else "this run failed before anything was changed"
    )


def _conduct(run: Run) -> Outcome:
    diagnosis = run.look()
    run.draft.first(run.evidence, diagnosis)
    for _ in range(5):
        gate = _gate(run, diagnosis)
        if gate.may in (May.NOTHING, May.REFUSE):
            run.draft.guards.extend(w for w in gate.why if w not in run.draft.guards)
        if gate.may is May.NOTHING:
            return _unchanged(run, diagnosis)
        if gate.may is May.REFUSE:
            return Outcome.REFUSED
        try:
            permission, plan = _permit(run, gate, diagnosis)
            run.draft.permission = permission
            if plan is None:
                return Outcome.EXPIRED if permission.by == "nobody" else Outcome.REJECTED
            outcome, diagnosis = _claimed(run, plan)
        except (Locked, GuardSaidNo) as e:
            run.draft.guards.append(str(e))
            return Outcome.REFUSED
        if outcome is not None:
            return outcome
        run.draft.first(run.evidence, diagnosis)
    run.draft.guards.append("the situation changed five times while deciding: escalate to a person")
    return Outcome.REFUSED


def _unchanged(run: Run, diagnosis: Diagnosis) -> Outcome:
    run.draft.headline = diagnosis.headline
    return {
        Verdict.HEALTHY: Outcome.HEALTHY,
        Verdict.NOT_APPLICABLE: Outcome.NOT_APPLICABLE,
        Verdict.CANNOT_TELL: Outcome.CANNOT_TELL,
        Verdict.SICK: Outcome.SICK,
    }[diagnosis.state]


def _gate(run: Run, diagnosis: Diagnosis) -> Gate:
    run.draft.headline = diagnosis.headline
    store.label(run.run_id, {"causes": ",".join(sorted({c.slug for c in diagnosis.wrong})) or "-"})
    owners = tuple(sorted({o for p in diagnosis.plans for o in p.owners}))
    history = history_of(owners) if diagnosis.plans and run.mode is not Mode.DIAGNOSE else ()
    node = next((n for n in run.fleet.nodes if n.name == run.context.target), None)
    hands_off = (node.reason or "the fleet file says so") if node and node.hands_off else ""
    gate = decide(diagnosis, run.mode, run.policy, risks(), history, run.context.now(), hands_off)
    if gate.may in (May.ASK, May.ACT):
        try:
            check_freeze()
            check_breaker(run.fleet.name)
        except GuardSaidNo as e:
            return Gate(may=May.REFUSE, plans=gate.plans, why=(*gate.why, str(e)))
    return gate


def _permit(run: Run, gate: Gate, diagnosis: Diagnosis) -> tuple[Permission, Plan | None]:
    plan = _chosen(run, gate)
    storm = look_for_storm(run, diagnosis)
    if gate.may is May.ACT and risk_of(plan, risks()) is not Risk.SAFE:
        run.draft.timeline.reached(
            "settled", f"waiting {run.policy.storm.settle_s:.0f} s to see whether others fail alike"
        )
        run.context.sleep(run.policy.storm.settle_s)
        storm = look_for_storm(run, diagnosis)
        if storm:
            raise GuardSaidNo(storm)
    if gate.may is May.ACT:
        at = run.context.now()
        return Permission(
            allowed=True, by="policy", who="policy file", at=at, digest=plan.digest, choice=plan.name
        ), plan
    return _ask(run, gate, diagnosis, storm)


def _chosen(run: Run, gate: Gate) -> Plan:
    return next((p for p in gate.plans if p.name == run.choice), gate.plans[0])


def _ask(run: Run, gate: Gate, diagnosis: Diagnosis, storm: str) -> tuple[Permission, Plan | None]:
    permission, key = given(run.run_id, gate)
    if permission is None:
        _ask_now(run, gate, diagnosis, storm, key)
    assert permission is not None  # noqa: S101 - asking never returns
    who = permission.who or "nobody gave a name"
    run.draft.timeline.reached(
        "decided", f"{'approved' if permission.allowed else 'not approved'} ({who}): {permission.choice}"
    )
    if not permission.allowed:
        if permission.by == "nobody":
            run.draft.guards.append(permission.said)
        return permission, None
    return permission, next(p for p in gate.plans if p.name == permission.choice)


def _ask_now(run: Run, gate: Gate, diagnosis: Diagnosis, storm: str, key: str) -> None:
    """Writes the waiting report, then suspends: the report is there before anybody is asked."""
    notes = tuple(w for w in (*gate.why, storm) if w)
    form = approval_text(load_runbook(run.spec.slug).title, run.context.target, diagnosis, gate.plans, notes)
    run.draft.timeline.reached("asking", f"asking a person: {', '.join(p.name for p in gate.plans)}")
    run.draft.waiting_until = run.context.now() + timedelta(seconds=gate.approval_ttl_s)
    publish(run, Outcome.WAITING, diagnosis.headline, None)
    ask(run.run_id, gate, form, key)


def _claimed(run: Run, plan: Plan) -> tuple[Outcome | None, Diagnosis]:
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
            return (None, again) if again.plans else (_unchanged(run, again), again)
        said = take_slot(run.fleet, run.policy, run.context.target, claims[0].act_run, run.context.now)
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
    run.context.sleep(plan.settle_s)
    after = run.look("verified")
    run.draft.after(run.evidence, after)
    fixed = _fixed(plan, after)
    for claim in claims:
        store.label(claim.act_run, {"verified": "fixed" if fixed else "not-fixed"})
    run.draft.headline = _closing(plan, after, fixed)
    if run.draft.acts[0].outcome == "refused" and len(run.draft.acts) == 1:
        return Outcome.FIXED if fixed else Outcome.REFUSED
    return Outcome.FIXED if fixed else Outcome.NOT_FIXED


def _fixed(plan: Plan, after: Diagnosis) -> bool:
    """Not seen fixed is not fixed: the causes are gone, and what had to be read was read."""
    left = {c.slug for c in after.wrong}
    return after.state is not Verdict.CANNOT_TELL and not left & set(plan.for_causes)


def _closing(plan: Plan, after: Diagnosis, fixed: bool) -> str:
    if fixed:
        rest = "" if after.state is Verdict.HEALTHY else f"; now: {after.headline}"
        return f"fixed by “{plan.name}” and seen fixed{rest}"
    return f"“{plan.name}” was tried and the fault is not seen gone: escalate. Now: {after.headline}"


def current_run_id() -> str:
    """Id of the flow run that this code runs in. Raises RuntimeError outside one."""
    ctx = FlowRunContext.get()
    if ctx is None or ctx.flow_run is None:
        raise RuntimeError("not inside a flow run")
    return str(ctx.flow_run.id)
