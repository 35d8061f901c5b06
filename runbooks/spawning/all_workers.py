"""Judges all workers that are past their limit in spawning, as one: alike is one incident, and nothing is fixed one by one."""

from collections import Counter
from collections.abc import Callable

from runbooks.core.distinct import names_of
from runbooks.core.headline import of_cause
from runbooks.core.judgment import credible, diagnosis, ordered, tier, to_do
from runbooks.core.reading import Known
from runbooks.core.rules import book
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from runbooks.parsers.worker_rows import WorkerRow
from runbooks.spawning.around import LIVE, judge_stale
from runbooks.spawning.evidence import Evidence
from runbooks.spawning.limits import Limits
from runbooks.spawning.view import SpawningView

SLUG = "stuck-spawning"
SHARED = ("orchestrator", "deployment", "variables", "tasks", "queued", "workers", "pods", "stock")
ALWAYS = ("shut down all workers, or terminate pods by a listing: one pod, by its id",)
Judge = Callable[[Evidence, Limits], Diagnosis]


def judge_all(e: Evidence, limits: Limits, judge: Judge, judge_shared: Judge) -> Diagnosis:
    """One diagnosis over what all workers share, every worker past its limit, and what was seen of the others.

    The same facts get the same judgment as in a run on one worker."""
    whole = judge_shared(e, limits)
    shared = {name: getattr(e, name) for name in SHARED}
    found = {x.worker: judge(x.model_copy(update=shared), limits) for x in e.each}
    alike = _alike(found, limits)
    stale = _stale(e, limits)
    causes = ordered(SLUG, _unique([alike] if alike else [], whole.causes, *(d.causes for d in found.values()), stale))
    own = [p for d in found.values() for p in d.plans if p in whole.plans]
    kept = () if alike else tuple(found.items())
    plans = [p.model_copy(update={"name": f"{p.name}: {w}"}) for w, d in kept for p in d.plans if p not in own]
    parts = (whole, *found.values())
    return diagnosis(
        SLUG,
        causes,
        state=_state(whole, found, stale),
        headline=_headline(e, found, alike, causes, whole),
        symptom=f"{len(e.each)} workers are past {limits.spawning_s:.0f} s in spawning",
        must_not=(*(m for d in parts for m in d.must_not), *ALWAYS),
        plans=(*whole.plans, *plans),
        before=("find the one cause that these workers share: no plan is offered for one of them",) if alike else (),
        after=_besides(e, whole, found),
        waiting_costs=tuple(dict.fromkeys(c for d in parts for c in d.waiting_costs)),
        findings=tuple(dict.fromkeys(f for d in parts for f in d.findings)),
        groups=tuple(dict.fromkeys(g for d in parts for g in d.groups)),
        by_hand=("SELECT id, created_at FROM workers WHERE status = 'spawning' ORDER BY created_at;",),
    )


def _first(d: Diagnosis) -> str:
    return next((c.slug for c in credible(d.causes)), "")


def _alike(found: dict[str, Diagnosis], limits: Limits) -> Cause | None:
    """The cause that most of them share, from `breaker_least` workers on."""
    firsts = Counter(slug for d in found.values() if (slug := _first(d)))
    slug, count = firsts.most_common(1)[0] if firsts else ("", 0)
    if count < limits.breaker_least or count <= limits.breaker_share * len(found):
        return None
    who = [w for w, d in found.items() if _first(d) == slug]
    said = f"{count} of {len(found)} stuck workers have one cause, {slug}"
    return Cause(slug="spawns-fail-alike", certainty=Certainty.CONFIRMED, subject="all workers", evidence=(said, names_of(who)),
                 decides=("what changed for all of them: image, template, key, account, data centre",))  # fmt: skip


def _stale(e: Evidence, limits: Limits) -> list[Cause]:
    """Live workers that do not report, claim nothing or never change."""
    rows: tuple[WorkerRow, ...] = e.workers.value if isinstance(e.workers, Known) else ()
    out: list[Cause] = []
    for row in rows:
        if row.status in LIVE:
            v = SpawningView(e.model_copy(update={"worker": row.id, "row": Known(value=row)}), limits)
            judge_stale(v)
            out += v.causes
    return out


def _unique(*groups: "list[Cause] | tuple[Cause, ...]") -> tuple[Cause, ...]:
    """Each (cause, subject) once: what all share is said once."""
    seen: dict[tuple[str, str], Cause] = {}
    for cause in (c for group in groups for c in group):
        seen.setdefault((cause.slug, cause.subject), cause)
    return tuple(seen.values())


def _state(whole: Diagnosis, found: dict[str, Diagnosis], stale: list[Cause]) -> State:
    states = {whole.state, *(d.state for d in found.values())}
    if State.UNHEALTHY in states or stale:
        return State.UNHEALTHY
    return State.CANNOT_TELL if State.CANNOT_TELL in states else State.HEALTHY


def _headline(
    e: Evidence, found: dict[str, Diagnosis], alike: Cause | None, causes: tuple[Cause, ...], whole: Diagnosis
) -> str:
    if alike:
        return f"one incident: {alike.evidence[0]}"
    wrong = [c for c in causes if tier(c) < 2]
    if not found or whole.state is State.UNHEALTHY:
        late = f"{len(found)} workers are past their limit" if len(found) > 1 else f"{len(found) or 'no'} worker is past its limit"
        if wrong:
            return of_cause(book(SLUG), wrong[0], f"{late} in spawning" if found else "", more=len(wrong) - 1)
        return f"{late} in spawning, and the orchestrator, its records and its queue are well"
    count = len(e.each) + len(e.not_looked_at)
    stuck = f"{count} worker{'s' if count > 1 else ''} stuck in spawning"
    if wrong:
        return of_cause(book(SLUG), wrong[0], stuck, more=len(wrong) - 1)
    blind = names_of([w for w, d in found.items() if d.state is State.CANNOT_TELL])
    return f"{stuck}: not enough was read of {blind}" if blind else f"{stuck}: nothing is wrong with what was read of them"


def _besides(e: Evidence, whole: Diagnosis, found: dict[str, Diagnosis]) -> tuple[str, ...]:
    """What is to be done besides the remedies: for all, then each thing once with the workers that it concerns."""
    said = {line for d in (whole, *found.values()) for line in to_do(SLUG, d.causes)}
    each: dict[str, list[str]] = {}
    for w, d in found.items():
        for x in d.do_now:
            each.setdefault(x, []).append(w)
    lines = [x for x in whole.do_now if x not in said]
    lines += [f"{names_of(who)}: {x}" for x, who in each.items() if x not in said]
    if e.not_looked_at:
        lines.append(f"{len(e.not_looked_at)} more workers were not looked at: {names_of(e.not_looked_at)}")
    return tuple(lines)
