"""The words around the verdicts: symptom, headline, what must not be done, what to do by hand, what waiting costs."""

from functools import partial

from runbooks.core.distinct import capital, names_of
from runbooks.core.gpu_set import Gpu
from runbooks.core.headline import of_cause
from runbooks.core.judgment import remedy, tier
from runbooks.core.program import program
from runbooks.core.reading import Known
from runbooks.core.remedies import NotDone
from runbooks.core.rules import book as book_of
from runbooks.core.unread import missing
from runbooks.core.verdict import Certainty, Finding, State
from runbooks.core.worded import CHOOSE
from runbooks.gpu.cautions import cautions
from runbooks.gpu.devices import of_unknown_cards
from runbooks.gpu.plans import GpuPlans
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, size, span

PRIORITY = {
    "latched-counter": "LOW",
    "defunct-unreaped": "LOW",
    "gpu-event": "MEDIUM",
    "job-without-process": "MEDIUM",
    "holder-in-other-namespace": "MEDIUM",
}
knowledge = partial(book_of, "zombie-gpu")


def headline(view: GpuView, state: State, verdicts: tuple[GpuVerdict, ...]) -> str:
    """One line: the earliest credible cause, or why there is none."""
    faults = [v for v in verdicts if not v.benign and v.certainty is not Certainty.RULED_OUT]
    if faults:
        sure = "" if faults[0].confirmed else f" ({faults[0].certainty})"
        return of_cause(knowledge(), faults[0].cause, hedge=sure, more=len(faults) - 1)
    if state is State.CANNOT_TELL:
        unread = missing(view.evidence)
        return f"cannot tell: {unread[0] if unread else 'the driver lists no GPU, and proves no absence'}"
    benign = [v for v in verdicts if v.benign]
    limit = ". The kernel log was not read: Xids not judged" if not isinstance(view.evidence.kernel, Known) else ""
    held = [words for g in view.gpus for words in idle_shares(view, g)] + [f.issue for f in of_unknown_cards(view)]
    limit = f". {capital(held[0])}{limit}" if held else limit
    if benign:
        return f"no zombie: {knowledge().causes[benign[0].slug].title.lower()} ({benign[0].subject}){limit}"
    return f"no zombie on {len(view.gpus)} GPU{'s' if len(view.gpus) != 1 else ''}{limit}"


def symptom(view: GpuView) -> str:
    """The numbers that make somebody ask: GPUs by use and memory, and the leader's count."""
    parts = [_gpu_words(g) for g in view.gpus]
    peers = view.leader.peers if view.leader else ()
    parts += [words for g in view.gpus for words in idle_shares(view, g)]
    parts += [f"the leader counts {p.jobs} jobs here" for p in peers if p.node == view.evidence.node]
    return ". ".join(map(capital, parts))


def idle_shares(view: GpuView, g: Gpu) -> tuple[str, ...]:
    """Who holds a large share of a GPU that runs nothing: said of everybody, whether that is a fault or not."""
    use = max((s.sm_percent for s in g.samples), default=100.0)
    if use > view.limits.low_gpu_percent or not g.memory_total_bytes or not isinstance(g.processes, Known):
        return ()
    large = [(p.pid, p.used_bytes or 0) for p in g.processes.value]
    large = [(pid, used) for pid, used in large if 100 * used >= view.limits.large_share_percent * g.memory_total_bytes]
    return tuple(
        f"{_who(view, pid)} holds {size(used)} of the {size(g.memory_total_bytes)} of GPU {g.index} "
        f"({100 * used / g.memory_total_bytes:.0f} %), which is {use:.0f} % busy at most"
        for pid, used in large
    )


def _who(view: GpuView, pid: int) -> str:
    p = view.processes.get(pid)
    name = (p.job or program(p.command)) if p else ""
    return f"pid {pid} ({name})" if name else f"pid {pid}"


def _gpu_words(g: Gpu) -> str:
    values = [s.sm_percent for s in g.samples]
    power = [s.power_w for s in g.samples if s.power_w is not None]
    use = f"{min(values):.0f}-{max(values):.0f} % busy in {len(values)} samples" if values else "use not read"
    watts = f", {max(power):.0f} W" if power else ""
    return f"GPU {g.index} ({g.name}): {use}, {size(g.memory_used_bytes)} of {size(g.memory_total_bytes)} used{watts}"


def must_not(view: GpuView, verdicts: tuple[GpuVerdict, ...]) -> tuple[str, ...]:
    """Everything that would make it worse here, each with its reason; never empty."""
    found = [line for v in verdicts for line in cautions(view, v)]
    if not isinstance(view.evidence.gpus, Known):
        found.append("do not take a reading that failed for a dead GPU or for an idle one: it says neither")
    if not found:
        found.append("do not end processes by name or by low GPU use: nothing here is proven to be stuck")
    return tuple(dict.fromkeys(found))


def findings(verdicts: tuple[GpuVerdict, ...]) -> tuple[Finding, ...]:
    """Faults in the fields of the old reports."""
    found = []
    for v in verdicts:
        if v.benign or v.certainty is Certainty.RULED_OUT:
            continue
        known = knowledge().causes[v.slug]
        priority = PRIORITY.get(v.slug, "HIGH") if v.credible else "LOW"
        issue = f"{known.title}: {v.subject}: {v.evidence[0]}"
        action = v.decides[0] if v.decides and tier(v) else remedy("zombie-gpu", v.cause)
        found.append(Finding(priority=priority, category="GPU", issue=issue, action=action))
    return tuple(found)


def choice(offer: GpuPlans) -> tuple[str, ...]:
    """That a person may choose."""
    return (f"{CHOOSE}{names_of([p.name for p in offer.plans])}",) if offer.plans else ()


def besides(view: GpuView, state: State, verdicts: tuple[GpuVerdict, ...], offer: GpuPlans) -> tuple[str, ...]:
    """What a person does besides the remedies."""
    faults = any(tier(v) < 2 for v in verdicts)
    unread = [f"make this readable: {u}" for u in missing(view.evidence)[:3]] if state is State.CANNOT_TELL and not faults else []
    return (*unread, *offer.withheld)


def waiting_costs(view: GpuView, verdicts: tuple[GpuVerdict, ...]) -> tuple[str, ...]:
    """GPUs and bytes that stuck processes hold, and money where the fleet file gives a price."""
    faults = [v for v in verdicts if not v.benign and v.certainty is not Certainty.RULED_OUT]
    held = {u for v in faults if v.slug != "busy-without-holder" for u in v.gpus}
    gpus = [g for g in view.gpus if g.uuid in held]
    if not gpus:
        return ()
    total = sum(view.held_bytes(p) or 0 for p in {p for v in faults for p in v.pids} if p in view.processes)
    names = ", ".join(f"GPU {g.index}" for g in gpus)
    found = [f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''} not working ({names})"]
    found += [f"{size(total)} of GPU memory held by stuck processes"] if total else []
    for name in sorted({view.processes[p].job for v in faults for p in v.pids if p in view.processes}):
        price = view.jobs[name].gpu_hour_cost if name in view.jobs else None
        if price:
            mine = {
                h.gpu.uuid
                for v in faults
                for p in v.pids
                for h in view.holdings.get(p, ())
                if view.processes[p].job == name
            }
            found.append(f"{price * len(mine):.2f} per hour for job {name} ({len(mine)} GPU at {price:.2f})")
    if view.earlier:
        found.append(f"the earlier reading is {span(view.gap_s)} old (report {view.earlier.report})")
    return tuple(found)


def by_hand(view: GpuView, verdicts: tuple[GpuVerdict, ...], offer: GpuPlans) -> tuple[str, ...]:
    """Commands to look for oneself, then what the first plan would run."""
    pids = sorted({p for v in verdicts for p in v.pids})
    found = ["nvidia-smi", "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv"]
    if pids:
        listed = ",".join(map(str, pids))
        found.append(f"ps -o pid,ppid,pgid,sid,stat,etimes,time,wchan:24,user,args -p {listed}")
    found.append("dmesg | grep -iE 'NVRM|Xid'")
    held = {x for note in offer.withheld if isinstance(note, NotDone) and note.kind == "continue-processes" for x in note.about}
    for v in verdicts:
        if v.slug == "stopped" and not v.confirmed:  # a confirmed one has its plan, or the reason why it has none
            found += [f"kill -CONT {p}  # lets it continue; loses nothing" for p in v.pids if str(p) not in held]
    if view.leader and view.leader.url:
        found.append(f"curl -s {view.leader.url.rstrip('/')}/status")
    plan = offer.plans[0] if offer.plans else None
    return tuple([*found, *(c for s in plan.steps for c in s.commands)] if plan else found)
