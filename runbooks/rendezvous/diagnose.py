"""Judges a rendezvous: what is dead, what lives and is left alone, what only looks like its fault."""

from runbooks.core.base import Frozen
from runbooks.core.headline import of_cause
from runbooks.core.judgment import diagnosis, findings, ordered, state_of
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.rules import book, by_the_rules
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from runbooks.rendezvous.advice import always, besides, proposals
from runbooks.rendezvous.barrier import barrier_causes
from runbooks.rendezvous.by_env import EnvJob, env_causes, env_jobs
from runbooks.rendezvous.causes import confirmed, possible
from runbooks.rendezvous.company import groups
from runbooks.rendezvous.etcd_judge import etcd_causes
from runbooks.rendezvous.evidence import NO_RETURN, Evidence
from runbooks.rendezvous.going_on import etcd_goes_on
from runbooks.rendezvous.launches import launch_causes
from runbooks.rendezvous.life import known_nodes, life_of
from runbooks.rendezvous.plans import plans_for
from runbooks.rendezvous.ports import port_causes
from runbooks.rendezvous.putback import judge_putback
from runbooks.rendezvous.runs import judge_run, of_backend, subject
from runbooks.rendezvous.stores import store_causes
from runbooks.rendezvous.unresolved import unresolved_causes
from runbooks.rendezvous.whole import whole_runs
from runbooks.triage.text import meanings

_FOLLOWS = {
    "nccl-interface": (
        "stale-rendezvous/nccl-interface",
        "distributed-setup/no-interface",
        "distributed-setup/interface-wrong",
        "ray-job/nccl-interface",
    ),
    "nccl-no-route": ("stale-rendezvous/nccl-no-route", "distributed-setup/peer-unreachable"),
    "nccl-version": ("stale-rendezvous/nccl-version", "distributed-setup/versions-differ"),
    "first-start-race": ("stale-rendezvous/first-start-race",),
    "nccl-data-preparation": ("stale-rendezvous/nccl-data-preparation", "nccl/timeout-while-one-rank-prepares"),
}  # what usually follows something earlier, and its names in the knowledge base


SLUG = "stale-rendezvous"


class Limits(Frozen):
    """Numbers of this runbook."""

    clock_skew_s: float
    fsync_p99_s: float
    old_agent_age_s: float


@by_the_rules("stale-rendezvous")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The verdict on one rendezvous (or one run of it)."""
    if isinstance(evidence.configured, Absent):
        return Diagnosis(state=State.NOT_APPLICABLE, headline=f"no rendezvous here: {evidence.configured.proof}")
    asked = not (isinstance(evidence.saved, Unknown) and evidence.saved.reason is UnknownReason.NOT_RECORDED)
    if asked and evidence.saved != NO_RETURN:
        return judge_putback(evidence)
    jobs = env_jobs(evidence)
    found = (*_places(evidence, jobs, limits), *_runs(evidence), *_follows(evidence))
    causes = ordered(SLUG, dict.fromkeys((*found, *whole_runs(evidence, found))))
    on, withheld = etcd_goes_on([c.slug for c in causes if c.certainty is Certainty.CONFIRMED], evidence)
    plans = (*on, *plans_for(causes, evidence, limits.old_agent_age_s))
    return diagnosis(
        SLUG,
        causes,
        state=state_of(causes),
        headline=_headline(causes, evidence),
        symptom=evidence.symptom[:2000],
        must_not=always(evidence),
        plans=plans,
        after=(*besides(causes, evidence, bool(plans)), *withheld),
        waiting_costs=_costs(causes),
        findings=findings(SLUG, causes, "rendezvous"),
        by_hand=(*_by_hand(evidence), *proposals(causes, evidence)),
        groups=groups(evidence, jobs),
    )


def _places(evidence: Evidence, jobs: tuple[EnvJob, ...], limits: Limits) -> list[Cause]:
    found = [*etcd_causes(evidence, limits.fsync_p99_s), *_skew(evidence, limits.clock_skew_s)]
    import_s = limits.old_agent_age_s
    return [
        *found, *launch_causes(evidence), *env_causes(evidence, jobs, import_s), *store_causes(evidence, jobs, import_s),
        *port_causes(evidence, import_s), *unresolved_causes(evidence),
    ]  # fmt: skip


def _skew(evidence: Evidence, limit_s: float) -> list[Cause]:
    clocks = sorted((n.skew_s, n.node) for n in known_nodes(evidence))
    if len(clocks) < 2 or clocks[-1][0] - clocks[0][0] <= limit_s:
        return []
    gap = clocks[-1][0] - clocks[0][0]
    words = f"{clocks[-1][1]} is {gap:.0f} s ahead of {clocks[0][1]}"
    why = f"an agent drops peers whose beat is {limit_s:g} s behind its own clock"
    return [confirmed("clock-skew", f"{clocks[0][1]} and {clocks[-1][1]}", words, why)]


def _runs(evidence: Evidence) -> list[Cause]:
    if not isinstance(evidence.runs, Known):
        return []
    chosen = [r for r in evidence.runs.value.second if evidence.run in ("", r.run)]
    found = [(r, c) for r in chosen for c in judge_run(r, life_of(r.run, r.backend, evidence), evidence)]
    return [of_backend(c, str(r.backend)) if c.subject == subject(r) else c for r, c in found]


def _follows(evidence: Evidence) -> list[Cause]:
    decides = ("the first error of every rank, earliest time first",)
    return [
        possible(slug, "what was pasted", "this text usually follows something earlier", decides=decides)
        for slug in meanings(evidence.symptom, _FOLLOWS)
    ] + barrier_causes(evidence.symptom)


def _headline(causes: tuple[Cause, ...], evidence: Evidence) -> str:
    bad = [c for c in causes if not c.benign]
    place = evidence.name or "rendezvous"
    if bad:
        return of_cause(book(SLUG), bad[0], place)
    live = [c for c in causes if c.slug in ("live-run", "still-joining")]
    return f"{place}: nothing is stale" + (f"; {len(live)} runs live and are left alone" if live else "")


def _costs(causes: tuple[Cause, ...]) -> tuple[str, ...]:
    waits = [c for c in causes if c.slug in ("some-dead", "waiting-for-nodes", "below-min-nodes", "dead-waiting")]
    return tuple(f"{c.subject}: its GPUs stand idle until the join time-out (600 s unless set)" for c in waits)


def _by_hand(evidence: Evidence) -> tuple[str, ...]:
    if not any(e.startswith("http") for e in evidence.endpoints):
        return ("ss -ltnp 'sport = :PORT'   # who listens on the store's port",)
    base = next(e for e in evidence.endpoints if e.startswith("http"))
    return (
        f"curl -sS {base}/health; curl -sS {base}/version",
        f"curl -sS '{base}/v2/keys/torch/elastic/rendezvous?recursive=true'   # backend etcd-v2",
        f"curl -sS '{base}/v2/keys/torch/elastic/store?recursive=true'   # names are base64",
        f"curl -sS '{base}/v2/keys{evidence.prefix}?recursive=true'   # backend etcd",
        "ps -eo pid,ppid,lstart,args | grep -E 'torchrun|torch.distributed.run'   # on every node",
    )
