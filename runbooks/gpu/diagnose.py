"""Judges one node: which GPUs and processes are busy on paper only, and which only look so. Pure."""

from runbooks.core.gpu_set import Gpu
from runbooks.core.judgment import diagnosis
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason, value_or
from runbooks.core.rules import by_the_rules
from runbooks.core.unexplained import HISTORY
from runbooks.core.verdict import Certainty, Diagnosis, Finding, State
from runbooks.gpu import story
from runbooks.gpu.benign import explained_here
from runbooks.gpu.cards import at_rest
from runbooks.gpu.company import Company
from runbooks.gpu.devices import judge_devices, of_unknown_cards
from runbooks.gpu.elsewhere import as_evidence
from runbooks.gpu.evidence import Evidence
from runbooks.gpu.limits import Limits
from runbooks.gpu.parsers.kernel_log import bus_in, bus_key
from runbooks.gpu.plans import offer
from runbooks.gpu.processes import alone, judge_processes
from runbooks.gpu.registered import count_differs, judge_registered, live_job_processes
from runbooks.gpu.verdicts import GpuVerdict, late, ranked, unowned
from runbooks.gpu.view import GpuView
from runbooks.gpu.xid import judge_xids
from runbooks.triage.text import findings_of

__all__ = ["Limits", "diagnose"]

SLUG = "zombie-gpu"


@by_the_rules("zombie-gpu")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment of one node."""
    view = GpuView(evidence, limits)
    verdicts = ranked(_merge([*judge_devices(view), *judge_xids(view)]))
    if isinstance(evidence.gpus, Absent) and not any(v.credible for v in verdicts):
        return _no_gpu(view, evidence.gpus.proof)
    company = Company(view, alone(view), _elsewhere(view))
    verdicts = ranked(unowned([*verdicts, *judge_processes(company), *judge_registered(view)]))
    state = _state(view, verdicts)
    said = value_or(evidence.log, ())
    offered = offer(view, verdicts, company.jobs)
    return diagnosis(
        SLUG,
        [v.cause for v in verdicts],
        late(verdicts),
        state=state,
        headline=story.headline(view, state, verdicts),
        symptom=story.symptom(view),
        must_not=story.must_not(view, verdicts),
        plans=tuple(offered.plans),
        before=story.choice(offered),
        after=story.besides(view, state, verdicts, offered),
        waiting_costs=story.waiting_costs(view, verdicts),
        findings=(
            *story.findings(verdicts),
            *count_differs(view),
            *of_unknown_cards(view),
            *_over(view),
            *findings_of(said, "its job's log", SLUG, {v.slug for v in verdicts}),
        ),
        by_hand=story.by_hand(view, verdicts, offered),
        groups=(*company.groups(), *offered.groups),
    )


def _over(view: GpuView) -> tuple[Finding, ...]:
    """What the kernel reported of a GPU that the driver lists and that answers now."""
    there = {bus_key(g.bus_id) for g in view.gpus if g.bus_id}
    said = [line for line in value_or(view.evidence.kernel_words, ()) if bus_in(line) in there]
    return tuple(
        Finding(priority="LOW", category=HISTORY, issue=f"since the boot: {line}", action="nothing now: that GPU is listed and answers")
        for line in said
    )


def _elsewhere(view: GpuView) -> tuple[Company, ...]:
    """The other nodes that were read, each judged by itself."""
    looks = value_or(view.evidence.elsewhere, ())
    views = [GpuView(as_evidence(view.evidence, e), view.limits) for e in looks if isinstance(e.processes, Known)]
    return tuple(Company(v, alone(v)) for v in views)


def _no_gpu(view: GpuView, proof: str) -> Diagnosis:
    return Diagnosis(
        state=State.NOT_APPLICABLE,
        headline=f"no GPU here ({proof})",
        must_not=(f"do not count {view.evidence.node} as a GPU node that lost its GPU: {proof}",),
        by_hand=("lspci -d 10de:", "ls -l /dev/nvidia*", "nvidia-smi"),
    )


def _merge(verdicts: list[GpuVerdict]) -> list[GpuVerdict]:
    """One verdict where the driver and the kernel log say the same of one GPU; the surer one leads."""
    kept: dict[tuple[str, str], GpuVerdict] = {}
    rank = list(Certainty)
    named = [v for v in verdicts if v.slug == "gpu-off-the-bus" and v.bus and v.credible]
    for v in verdicts:
        counted = v.slug == "gpu-off-the-bus" and not v.bus  # the bus has more than the driver lists: which, is known
        key = (v.slug, named[0].bus if counted and named else v.bus or v.subject)
        old = kept.get(key)
        if old is None:
            kept[key] = v
            continue
        first, second = sorted((old, v), key=lambda x: rank.index(x.certainty))
        both = tuple(dict.fromkeys((*first.evidence, *second.evidence)))
        kept[key] = GpuVerdict(
            **{
                **first.__dict__,
                "evidence": both,
                "reset": first.reset or second.reset,
                "gpus": first.gpus or second.gpus,
            }
        )
    return list(kept.values())


def _state(view: GpuView, verdicts: tuple[GpuVerdict, ...]) -> State:
    if any(v.credible for v in verdicts):
        return State.UNHEALTHY
    needed = (view.evidence.facts, view.evidence.gpus, view.evidence.processes)
    if not all(isinstance(r, Known) for r in needed) or not view.gpus:
        return State.CANNOT_TELL
    if any(v.certainty is Certainty.POSSIBLE for v in verdicts):
        return State.CANNOT_TELL
    unread = any(_unexplained(view, g) for g in view.gpus) or _paper_unread(view)
    return State.CANNOT_TELL if unread else State.HEALTHY


def _unexplained(view: GpuView, gpu: Gpu) -> bool:
    """Use or memory on it whose processes could not be read, or no sample of its use at all."""
    if not gpu.samples and not gpu.mig:
        return True
    if isinstance(gpu.processes, Known):
        return False
    rest = at_rest(view, gpu)
    use = max((s.sm_percent for s in gpu.samples), default=0.0)
    return (use > 0 or gpu.memory_used_bytes > rest.own + rest.least or bool(gpu.mig)) and not explained_here(view, gpu)


def _paper_unread(view: GpuView) -> bool:
    """The leader could not be asked, and nothing works here: whether it counts a job is open."""
    leader = view.evidence.leader
    asked = isinstance(leader, Unknown) and leader.reason not in (UnknownReason.NOT_ASKED, UnknownReason.NOT_RECORDED)
    return asked and not live_job_processes(view) and not view.holdings
