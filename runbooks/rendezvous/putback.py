"""Judges a saved run that a person wants back."""

import shlex

from runbooks.core.args.rendezvous import RestoreRunKeys
from runbooks.core.judgment import diagnosis
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known, Unknown
from runbooks.core.verdict import Diagnosis, Finding, State
from runbooks.rendezvous.causes import confirmed, possible
from runbooks.rendezvous.evidence import Evidence, Putback
from runbooks.rendezvous.plans import owner
from runbooks.rendezvous.runs import of_backend, subject

SLUG = "stale-rendezvous"
MUST_NOT = (
    "write single keys by hand: a rendezvous key without its store, or the reverse, traps the next run",
    "put it back to start the job: a dead run blocks its id; it is for undoing a mistake",
)


def judge_putback(evidence: Evidence) -> Diagnosis:
    """The verdict on a file that holds a saved run."""
    saved = evidence.saved
    if not isinstance(saved, Known):
        why = saved.why if isinstance(saved, Unknown) else "no file was given"
        return Diagnosis(
            state=State.CANNOT_TELL, headline=f"{evidence.name}: {why}", must_not=MUST_NOT, unknowns=(why,)
        )
    found = saved.value
    who = subject(found)
    if found.refusal:
        look = "a look at the keys that are there now"
        no = of_backend(possible("run-to-restore", who, found.refusal, decides=(look,)), str(found.backend))
        headline = f"{evidence.name}: {who} must not be put back: {found.refusal}"
        return diagnosis(SLUG, (no,), state=State.CANNOT_TELL, headline=headline, must_not=MUST_NOT)
    if not found.missing:
        return Diagnosis(
            state=State.HEALTHY, headline=f"{evidence.name}: {who} is there as it was saved", must_not=MUST_NOT
        )
    words = [f"{len(found.missing)} keys of {found.file} are not in etcd"]
    words += [f"{found.expired} more have expired meanwhile and stay away"] if found.expired else []
    cause = of_backend(confirmed("run-to-restore", who, *words), str(found.backend))
    return diagnosis(
        SLUG,
        (cause,),
        state=State.UNHEALTHY,
        headline=f"{evidence.name}: {who}: {words[0]}, and a person wants them back",
        must_not=MUST_NOT,
        plans=(restore_plan(evidence, found),),
        after=("approve it only if the deletion was a mistake",),
        findings=(Finding(priority="MEDIUM", category="rendezvous", issue=words[0], action="put them back"),),
    )


def plan_name(run: str, backend: str) -> str:
    """What the plan is called, where a person chooses it."""
    return f"put run {run} ({backend}) back"


def restore_plan(evidence: Evidence, found: Putback) -> Plan:
    """The one thing that may be done. Nothing in it moves: times to live are worked out when it is done."""
    args = RestoreRunKeys(
        rendezvous=evidence.name, endpoint=evidence.etcd_endpoint, file=found.file, digest=found.digest, run=found.run,
        backend=found.backend,
    )  # fmt: skip
    step = Step(
        kind="restore-run-keys",
        owner=owner(evidence),
        args=args.plain(),
        commands=(f"gpu-runbooks restore {shlex.quote(found.file)}",),
        effect=f"the keys of run {found.run} are there as they were saved, with what is left of their time to live",
        loses="the free id: a new run with it meets the old state again",
    )
    return Plan(name=plan_name(found.run, found.backend), steps=(step,), for_causes=("run-to-restore",), settle_s=0.5)
