"""Runs a runbook: gather, diagnose, gate, approve, lock, gather and diagnose again, act, verify, report."""

from datetime import timedelta
from functools import partial
from typing import Any

from httpx import TransportError
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause, TerminationSignal
from prefect.states import Cancelled

from flows.clock import server_now
from flows.engine.actions import risks
from flows.engine.approval import ApprovalLookup, ask, look_up_approval, was_asked
from flows.engine.carry_out import carry_out
from flows.engine.common_cause import check_common_cause
from flows.engine.ends import RunFailed, fault_in, in_words
from flows.engine.execution import number
from flows.engine.gate import Decision, Gate, risk_of
from flows.engine.interrupted import failed_because
from flows.engine.judging import gate_of
from flows.engine.outcomes import end_state, notify_of, publish
from flows.engine.ownership import heartbeat
from flows.engine.run import Run, unchanged
from flows.engine.shown import answered, decided
from flows.engine.stopping import RunStopped, go_on, state_on_server, wait, why_stop
from flows.notify.delivery import deliver
from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Risk
from runbooks.core.policy import Mode
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.report import Permission, Report
from runbooks.core.verdict import Diagnosis
from tasks.context import ActionRefused
from tasks.diagnostic import shown
from tasks.task_run import End
from tasks.transport.open import HostPool


def run_runbook(run: Run, pool: HostPool) -> State[Any]:
    """The whole run, with a report in every case. Called from inside the runbook's flow."""
    run.execution = number(run.run_id)
    run.record.timeline.reached("started", f"{run.spec.slug} on {run.context.target}, mode {run.mode}", logged=f"mode {run.mode}")
    try:
        with heartbeat(run.run_id):
            outcome = _conduct(run)
    except Pause:
        deliver(run.run_id)
        raise
    except RunStopped as e:
        return _stopped(run, str(e), pool)
    except BaseException as e:
        said = in_words(e)
        if why := why_stop(run.run_id):  # a worker ends what is cancelled by a signal; Prefect refuses it a question
            run.record.guards.append(said)
            stopped = _stopped(run, why, pool)
            if isinstance(e, Exception | TerminationSignal):
                return stopped
            raise
        run.record.crashed, run.record.fault = said, fault_in(e)
        if run.record.fault and (run.record.diagnosis or run.diagnosis):  # else the judgment says so
            run.record.guards.append(run.record.fault)
        _say_where_it_stands(run)
        failed = publish(run, *_as_far_as_it_came(run, e), pool)
        if isinstance(e, Exception):
            notify_of(run, failed)
            state_on_server(run.run_id)
            raise RunFailed(run.record.crashed) from None  # Prefect stores the message
        raise
    report = shown("report", "report", lambda: publish(run, outcome, run.record.headline, pool), _of_report)
    notify_of(run, report)
    return end_state(outcome, report.headline)


def _of_report(report: Report) -> End:
    return End("COMPLETED", "Written", f"outcome: {report.outcome}")


def _as_far_as_it_came(run: Run, error: BaseException) -> tuple[Outcome, str]:
    """Outcome and headline of a run that failed. Where only the server is gone the verdict stands: the target was read and judged."""
    if isinstance(error, TransportError) and run.diagnosis is not None and not run.record.acts:
        run.record.guards.append(f"the Prefect server is gone: {run.record.crashed}")
        return unchanged(run, run.diagnosis), run.diagnosis.headline
    return Outcome.CANNOT_TELL, failed_because(run.record.crashed)


def _stopped(run: Run, why: str, pool: HostPool) -> State[Any]:
    """The report of a run that was cancelled, or that others ended. How far it came stands in it."""
    _say_where_it_stands(run, "stopped")
    report = publish(run, Outcome.CANCELLED, why, pool)
    notify_of(run, report)
    return Cancelled(message=report.headline[:400])


def _say_where_it_stands(run: Run, how: str = "failed") -> None:
    begun = [a for a in run.record.acts if a.outcome != "not-started"]
    run.record.guards.append(
        f"this run {how} after {len(begun)} action(s); check the target before anything else"
        if begun
        else f"this run {how} before anything was changed"
    )


def _conduct(run: Run) -> Outcome:
    diagnosis = run.observe()
    run.record.first(run.evidence, diagnosis)
    for _ in range(5):
        gate = decided(partial(gate_of, run, diagnosis, read_once=run.observations == 1))  # once: clocks may be apart
        if gate.decision is Decision.REFUSE and gate.frozen and was_asked(run.run_id):
            asked = {"decision": Decision.ASK, "why": (*gate.else_asked, *gate.why)}
            gate = gate.model_copy(update=asked)  # a freeze holds a question: it takes no approval, and is asked on
        if gate.decision is Decision.NOTHING:
            run.record.guards.extend(w for w in map(str, gate.why) if w not in run.record.guards)
            return unchanged(run, diagnosis)
        if gate.decision is Decision.AGAIN:
            diagnosis = run.observe("gathered-again", "second look")
            run.record.first(run.evidence, diagnosis)
            continue
        if gate.decision is Decision.REFUSE:
            run.record.refused(*gate.why)
            return Outcome.REFUSED
        try:
            permission, plan = _permit(run, gate, diagnosis)
            run.record.permission = permission
            if plan is None:
                return _not_allowed(run, permission)
            outcome, diagnosis = carry_out(run, plan)
        except ActionRefused as e:
            run.record.refused(e.refusal)
            return Outcome.REFUSED
        if outcome is not None:
            return outcome
        run.record.first(run.evidence, diagnosis)
    said = "the situation changed five times during the decision: escalate to a person"
    run.record.refused(Refusal(code=RefusalCode.TARGET_CHANGED, why=said))
    return Outcome.REFUSED


def _not_allowed(run: Run, permission: Permission) -> Outcome:
    """Nobody decided in time, or a person said no."""
    nobody = permission.by == "nobody"
    code = RefusalCode.EXPIRED if nobody else RefusalCode.REJECTED
    run.record.refused(Refusal(code=code, why=permission.said or code.row.meaning), said=permission.said if nobody else "")
    return Outcome.EXPIRED if nobody else Outcome.REJECTED


def _permit(run: Run, gate: Gate, diagnosis: Diagnosis) -> tuple[Permission, Plan | None]:
    plan = gate.plans[0]  # the gate puts the chosen one first
    common_cause = check_common_cause(run, diagnosis)
    if gate.decision is Decision.ACT and risk_of(plan, risks()) is not Risk.SAFE:
        run.record.timeline.reached(
            "settled", f"waiting {run.policy.storm.settle_s:.0f} s to see whether others fail alike"
        )
        wait(run.run_id, run.policy.storm.settle_s, run.context.sleep)
        common_cause = check_common_cause(run, diagnosis)
        if common_cause:
            raise ActionRefused(RefusalCode.COMMON_CAUSE, common_cause)
    if gate.decision is Decision.ACT:
        at = server_now()
        return Permission(
            allowed=True, by="policy", who="policy file", at=at, digest=plan.digest, choice=plan.name
        ), plan
    if run.mode is Mode.AUTO:  # why it did not act by itself
        run.record.refused(*gate.why, said="")
    return _ask(run, gate, diagnosis, common_cause)


def _ask(run: Run, gate: Gate, diagnosis: Diagnosis, common_cause: str) -> tuple[Permission, Plan | None]:
    answer = answered(lambda: look_up_approval(run.run_id, gate, run.policy.approvers))
    permission = answer.permission
    if answer.changed:
        run.record.refused(Refusal(code=RefusalCode.TARGET_CHANGED, why=answer.changed))
    run.record.guards.extend(f"an answer was not accepted: {why}" for why in answer.not_taken)
    if permission is None:
        _ask_now(run, gate, diagnosis, common_cause, answer)
    assert permission is not None  # noqa: S101 - asking never returns
    who = permission.who or "nobody"
    run.record.timeline.reached(
        "decided", f"{'approved' if permission.allowed else 'not approved'} ({who}): {permission.choice}"
    )
    if not permission.allowed:
        return permission, None
    return permission, next(p for p in gate.plans if p.name == permission.choice)


def _ask_now(run: Run, gate: Gate, diagnosis: Diagnosis, common_cause: str, answer: ApprovalLookup) -> None:
    """Writes the waiting report, then suspends: the report is there before anybody is asked."""
    go_on(run.run_id)
    refused = tuple(f"the last answer was not accepted: {why}" for why in answer.not_taken[-1:])
    notes = tuple(w for w in (*map(str, gate.why), common_cause, answer.changed, *refused) if w)
    worst = {kind: risk.value for kind, risk in risks().items()}
    book = load_runbook(run.spec.slug)
    titles = {slug: cause.title for slug, cause in book.causes.items()}
    about = (book.title, run.context.target, diagnosis, gate.plans, notes, worst, titles)
    run.record.timeline.reached("asking", f"asking a person: {', '.join(p.name for p in gate.plans)}")
    asked = server_now()
    run.record.waiting_until = asked + timedelta(seconds=gate.approval_ttl_s)
    form, question = approval_text(*about, times=(asked, run.record.waiting_until)), approval_text(*about, width=0)
    run.record.offered, run.record.approval_key = gate.plans, answer.key
    publish(run, Outcome.WAITING, diagnosis.headline, None)
    ask(run.run_id, gate, form, answer.key, run.policy.approvers, question)
