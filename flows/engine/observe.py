"""One observation of a target and one report of it: for the engine, the sweep and a run without a server. Needs no Prefect."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from flows.engine.interrupted import failed_because
from flows.spec import RunbookSpec
from runbooks.core.anew import read_anew, why_old
from runbooks.core.base import Frozen
from runbooks.core.changed_limits import changed_limits
from runbooks.core.covers import with_unused
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome, outcome_of
from runbooks.core.plan import Risk
from runbooks.core.reading import UnknownReason
from runbooks.core.redact_own import own_model
from runbooks.core.report import Report
from runbooks.core.verdict import Diagnosis, State
from tasks.context import Context, utc_now
from tasks.installation import installation_redactor
from tasks.report_store import earlier_evidence, last_answer
from tasks.shared import Shared
from tasks.ssh.seen import LogInCheck
from tasks.transport.base import TransportError
from tasks.transport.open import HostPool


class UnreadTarget(Frozen):
    """What stands for evidence where the target gave no answer."""

    reason: UnknownReason
    said: str


def context_of(
    spec: RunbookSpec, fleet: Fleet, target: str, folder: Path, pool: HostPool, options: dict[str, Any] | None = None, sweep: str = "",
    shared: Shared | None = None,
) -> Context:
    """What a look at `target` needs. `folder`: where reports lie, for an earlier reading; `sweep`: its kind, if it is one's, and
    `shared`: what it has read. Raises ConfigError."""
    limits = load_runbook(spec.slug).limit_values(fleet.limits.get(spec.slug))
    lookback = float(limits[spec.lookback]) if spec.lookback else 0.0
    earlier = earlier_evidence(folder, spec.slug, target, lookback, utc_now())
    since = None
    if spec.window and sweep:
        earlier = last_answer(folder, spec.slug, target, sweep)
        since = _news_since(earlier, float(limits[spec.window]))
    return Context(
        fleet=fleet, target=target, open_host=pool, limits=limits, options=options or {}, earlier=earlier, since=since, sweep=sweep,
        shared=shared, log_in=LogInCheck(),
    )  # fmt: skip


def _news_since(last: dict[str, Any] | None, window_s: float) -> datetime:
    """The last sweep that gave an answer, and at least so long ago: a second sweep of one day tells the same once more."""
    at = utc_now() - timedelta(seconds=window_s)
    return min(at, datetime.fromisoformat(last["evidence"]["taken_at"])) if last else at


def read(spec: RunbookSpec, context: Context) -> Any:
    """The evidence, or UnreadTarget where the target gave no answer or an old one; a single reading that is older than this look
    is unknown. Raises what the reading itself fails with."""
    began = context.now()
    try:
        found = spec.gather(context)
    except TransportError as e:
        return UnreadTarget(reason=e.reason, said=installation_redactor().text(str(e)))
    since = context.shared.oldest(began) if context.shared else began
    if why := why_old(getattr(found, "taken_at", None), since):
        return UnreadTarget(reason=UnknownReason.FAILED, said=why)
    return read_anew(found, since)


def judge(spec: RunbookSpec, context: Context, evidence: Any) -> Diagnosis:
    """The judgment of what `read` gave."""
    if isinstance(evidence, UnreadTarget):
        return Diagnosis(
            state=State.CANNOT_TELL,
            headline=f"{context.target} could not be read: {evidence.reason.words}",
            unknowns=(f"{context.target}: {evidence.said}",),
            must_not=("Do not treat this as healthy, or as a GPU fault: nothing was read.",),
        )
    found = spec.diagnose(evidence, spec.limits.model_validate(context.limits))
    return with_unused(found, context.not_used)


def observe(spec: RunbookSpec, context: Context) -> tuple[Any, Diagnosis]:
    """(evidence, judgment); evidence is None where the target gave no answer. Raises what the runbook itself fails with."""
    evidence = read(spec, context)
    return (None if isinstance(evidence, UnreadTarget) else evidence), judge(spec, context, evidence)


def failed_observation(why: str, fault: str = "") -> Diagnosis:
    """The judgment of a run that failed by an error of its own. `why`: in words without secrets; `fault`: more, if it is ours."""
    return Diagnosis(
        state=State.CANNOT_TELL,
        headline=failed_because(why),
        unknowns=(f"everything: the run failed before it could judge ({why})" + (f"; {fault}" if fault else ""),),
        must_not=("Do not treat this as healthy: nothing was judged.",),
    )


def report_of(
    spec: RunbookSpec, context: Context, diagnosis: Diagnosis, evidence: Any, started: datetime, **more: Any
) -> Report:
    """The report of a run, with secrets replaced once more. `more`: fields of Report that only this run knows."""
    given = {"mode": "diagnose", "outcome": outcome_of(diagnosis.state), "headline": diagnosis.headline} | more
    if "after_evidence" in given:
        given["after_evidence"] = _clean(given["after_evidence"])
    if diagnosis.plans:
        given["risks"] = _risks()
    return _cleaned(
        Report(
            runbook=spec.slug,
            title=load_runbook(spec.slug).title,
            target=context.target,
            fleet=context.fleet.name,
            started_at=started,
            ended_at=utc_now(),
            diagnosis=diagnosis,
            evidence=_clean(evidence) or {},
            limits=dict(context.limits),
            changed_limits=changed_limits(context.fleet, spec.slug),
            **given,
        )
    )


def _risks() -> dict[str, Risk]:
    from flows.engine.actions import risks  # with everything that acts: only for a report that shows a plan

    return risks()


def report_unread(slug: str, target: str, headline: str, do_now: str, **more: Any) -> Report:
    """The report of a run that could not begin to look."""
    now, said = utc_now(), installation_redactor().text(headline)
    found = Diagnosis(state=State.CANNOT_TELL, headline=said, do_now=(do_now,))
    return _cleaned(
        Report(
            runbook=slug,
            target=target,
            fleet="",
            outcome=Outcome.CANNOT_TELL,
            headline=said,
            started_at=now,
            ended_at=now,
            diagnosis=found,
            evidence={},
            limits={},
            **more,
        )
    )


def _cleaned(report: Report) -> Report:
    """Secrets replaced once more, whatever slipped through where it was read. Its evidence is clean already."""
    was_read = {"evidence": report.evidence, "after_evidence": report.after_evidence}
    rest = report.model_copy(update={"evidence": {}, "after_evidence": None})
    return Report.model_validate(own_model(installation_redactor(), rest, sentences=True) | was_read)


def _clean(evidence: Any) -> dict[str, Any] | None:
    """What was read as JSON data, with secrets replaced once more."""
    return dict(own_model(installation_redactor(), evidence, sentences=False)) if evidence is not None else None
