"""Judges the database's rows of workers against the provider's pods, both ways. Pure."""

from runbooks.core.distinct import names_of
from runbooks.core.headline import of_cause
from runbooks.core.judgment import LIKELY, POSSIBLE, SURE, Judgment, credible, findings, state_of, tier
from runbooks.core.reading import Absent, value_or
from runbooks.core.rules import book, by_the_rules
from runbooks.core.table import since
from runbooks.core.verdict import Diagnosis, State
from runbooks.orchestrator.company import groups
from runbooks.orchestrator.evidence import Evidence
from runbooks.orchestrator.plans import offer
from runbooks.orchestrator.sides import Limits, Sides, blind
from runbooks.parsers.runpod import Phase, Pod
from runbooks.parsers.worker_rows import WorkerRow

SLUG = "fleet-sync"
ALWAYS = (
    "end pods by a listing, or all that a listing shows: one pod, by its id",
    "take a failed, a cut or an empty read for an empty fleet",
)


@by_the_rules("fleet-sync")
def diagnose(e: Evidence, limits: Limits) -> Diagnosis:
    """Orphan pods, stale rows, ended rows whose pod costs on, lost pod ids. Only lists that are whole and alike decide."""
    if isinstance(e.rows, Absent):
        return Diagnosis(state=State.NOT_APPLICABLE, headline=e.rows.proof)
    why = blind(e)
    if why:
        return Diagnosis(state=State.CANNOT_TELL, headline=f"workers and pods cannot be compared: {why[0]}", unknowns=why, must_not=ALWAYS)
    s, j = Sides(e, limits), Judgment(SLUG)
    waits = [line for pod in s.there if (line := _pod(s, j, pod))]
    waits += [line for row in s.podless() if (line := _podless(s, j, row))]
    for pod in s.foreign:
        for row in s.naming.get(pod.id, ()):
            said = f"the pod is named {pod.name or '?'}, which does not start with {e.prefix}"
            about = f"{_both(pod)} of worker {row.id}"
            j.say("ownership-unclear", LIKELY, f"row {row.id} says {row.status} and names it", said, about=about)
    _fit(s, j)
    plans, held_back = offer(s, j.causes)
    return j.diagnosis(
        state=state_of(j.causes),
        headline=_headline(s, j),
        must_not=ALWAYS,
        plans=plans,
        after=(*waits, *_foreign(s), *held_back),
        waiting_costs=_costs(s, j),
        groups=tuple(groups(s)),
        findings=findings(SLUG, j.causes, "workers against pods"),
    )


def _pod(s: Sides, j: Judgment, pod: Pod) -> str:
    """One pod of ours that is there. Returns a sentence where it has to wait."""
    owners, age = s.owners(pod), s.pod_age(pod)
    told = f"pod {pod.id} ({pod.name}) is {pod.status or pod.phase}: {price(s, pod)}"
    if len(owners) > 1:
        who = names_of([r.id for r in owners])
        j.say("ownership-unclear", LIKELY, told, f"rows {who} name it, by its id or by its name", about=_both(pod))
        return ""
    if s.young(age):
        fits = owners and owners[0].pod_id == pod.id
        return "" if fits else f"pod {pod.id} is {since(max(0.0, age or 0.0))} old: its row may not be written yet. Look again later"
    if not owners:
        alone = value_or(s.e.rows_by_id, {}).get(pod.name) == ""
        asked = "asked for by its name, the table has no row" if alone else "whether a row has its name was not asked for by itself"
        old = "" if age is not None else "the provider does not tell how old it is"
        sure = SURE if alone and age is not None else LIKELY
        j.say("orphan-pod", sure, told, "no row of the table owns it", asked, old, about=_both(pod))
        return ""
    return _owned(s, j, pod, owners[0], told)


def _owned(s: Sides, j: Judgment, pod: Pod, row: WorkerRow, told: str) -> str:
    """A pod that one row owns. Returns a sentence where it has to wait."""
    about, says = f"{_both(pod)} of worker {row.id}", f"its row says {row.status}"
    if row.pod_id and row.pod_id != pod.id:
        j.say("ownership-unclear", LIKELY, told, f"the row of that name names another pod, {row.pod_id}", about=about)
    elif row.status in s.e.live:
        if row.ended:
            j.say("resurrected-row", SURE, told, f"{says}, and its metadata holds {row.ended}", about=about)
        if not row.pod_id:
            sure = SURE if s.pod_age(pod) is not None and _alone(s, pod) else LIKELY
            j.say("lost-pod-id", sure, told, f"{says} and names no pod; the pod has its name", about=about)
        if pod.phase is Phase.EXITED:
            j.say("exited-pod-costs", LIKELY, told, f"{says}; a stopped pod keeps its disk, which costs on", about=about,
                  decides=(f"gpu-runbooks run stuck-spawning worker/{row.id}",))  # fmt: skip
    elif row.status not in s.e.ended:
        j.say("status-unknown", POSSIBLE, told, f"its row has the status {row.status}, of which nobody said what it means", about=about)
    elif s.reports(row):
        j.say("resurrected-row", LIKELY, told, f"{says}, and its worker reports: heartbeat {since(s.age(row.heartbeat))} ago", about=about)
    elif s.young(s.age(row.changed)):
        return f"pod {pod.id}: {says} since {since(s.age(row.changed))}; whoever wrote that may still end the pod. Look again later"
    else:
        slug = "exited-pod-costs" if pod.phase is Phase.EXITED else "ended-row-pod-bills"
        sure = SURE if s.pod_age(pod) is not None else LIKELY
        j.say(slug, sure, told, f"{says}, and names the pod" if row.pod_id else f"{says}, and the pod has its name", about=about)
    return ""


def _alone(s: Sides, pod: Pod) -> bool:
    """No other pod has its name."""
    return sum(p.name == pod.name for p in s.there) == 1


def _podless(s: Sides, j: Judgment, row: WorkerRow) -> str:
    """A row that says it lives, and whose pod is not in the list. Returns a sentence where it has to wait."""
    age = s.age(row.created)
    if s.young(age):
        return f"worker {row.id} is {since(age)} old and has no pod yet. Look again later"
    gone = value_or(s.e.pods_by_id, {}).get(row.pod_id) == "" if row.pod_id else False
    says = f"its row says {row.status} with pod {row.pod_id or 'none'}; heartbeat {_ago(s, row)}"
    if s.reports(row):
        j.say("stale-row", LIKELY, says, "its worker reports, though the provider has no such pod", about=f"worker {row.id}",
              decides=("where its heartbeat comes from: another account, or a pod that the key does not show",))  # fmt: skip
        return ""
    known = f"asked for by its id, the provider has no pod {row.pod_id}" if gone else "no pod has its name"
    j.say("stale-row", SURE if gone and age is not None else LIKELY, says, "its pod is in neither list", known, about=f"worker {row.id}",
          decides=() if gone else (f"gpu-runbooks run stuck-spawning worker/{row.id}",))  # fmt: skip
    return ""


def _fit(s: Sides, j: Judgment) -> None:
    """Most of one side without a counterpart: then it is rather the wrong database, or the wrong account."""
    live = [r for r in s.rows if r.status in s.e.live]
    sides = ("orphan-pod", len(s.there), "pods have no row"), ("stale-row", len(live), "rows that say they live have no pod")
    for slug, of, what in sides:
        count = len({c.subject for c in credible(j.causes) if c.slug == slug})
        if count >= s.limits.unfit_least and count > s.limits.unfit_share * of:
            j.say("sides-do-not-fit", LIKELY, f"{count} of {of} {what}", about="both sides")


def _headline(s: Sides, j: Judgment) -> str:
    causes = j.sort()
    first = next((c for c in causes if tier(c) < 2), None)
    if first is None:
        return f"{len(s.rows)} rows and {len(s.there)} pods of this orchestrator fit together"
    return of_cause(book(SLUG), first, "", more=sum(tier(c) < 2 for c in causes) - 1)


def _foreign(s: Sides) -> tuple[str, ...]:
    """Pods of others in the same account."""
    if not s.foreign:
        return ()
    who = names_of([_both(p) for p in s.foreign])
    return (f"{len(s.foreign)} pods of the account are not this orchestrator's and were left alone: {who}",)


def _costs(s: Sides, j: Judgment) -> tuple[str, ...]:
    """What the pods that nobody uses cost, where the provider tells it."""
    idle = ("orphan-pod", "ended-row-pod-bills", "exited-pod-costs")
    subjects = [c.subject for c in credible(j.causes) if c.slug in idle]
    mine = [p for p in s.there if any(x == _both(p) or x.startswith(f"{_both(p)} ") for x in subjects)]
    told = [p.cost_per_hour for p in mine if p.cost_per_hour is not None]
    if not told:
        return ()
    sofar = sum(p.cost_per_hour * (s.pod_age(p) or 0.0) / 3600 for p in mine if p.cost_per_hour is not None)
    return (f"{len(mine)} pods without use: {sum(told):.2f} an hour, {sofar:.2f} since they were made or last started",)


def _both(pod: Pod) -> str:
    return f"pod {pod.id}"


def _ago(s: Sides, row: WorkerRow) -> str:
    age = s.age(row.heartbeat)
    return "never" if age is None else f"{since(max(0.0, age))} ago"


def price(s: Sides, pod: Pod) -> str:
    """Price, age and cost so far, as far as the provider tells them."""
    age = s.pod_age(pod)
    words = [f"{pod.cost_per_hour:.2f} an hour" if pod.cost_per_hour is not None else "price not told"]
    words += [f"{since(age)} old" if age is not None else "age not told"]
    words += [f"{pod.cost_per_hour * age / 3600:.2f} so far"] if pod.cost_per_hour is not None and age is not None else []
    return ", ".join(words)
