"""What may be done about confirmed causes, as data: exact identities, and a reason for everything that is held back."""

import json
import posixpath
import shlex
from dataclasses import dataclass, field

from runbooks.core.args.containers import Moving, RestartContainer
from runbooks.core.args.nodes import Gone, QuarantineNode, ResetGpu, ResetNodeJobs, RestartJob
from runbooks.core.by_hand import detached
from runbooks.core.node_basics import QUARANTINE
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.remedies import NotDone
from runbooks.core.signals import ended
from runbooks.core.verdict import Group
from runbooks.gpu.boxes import Boxes, boxes
from runbooks.gpu.family import KillSet, KillSets, kill_sets
from runbooks.gpu.going_on import going_on
from runbooks.gpu.mates import Jobs
from runbooks.gpu.registered import live_job_processes
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, size

GRACE_S = 10  # source: the time that `docker stop` gives between TERM and KILL
BEFORE_PROCESSES = ("driver-stuck", "gpu-needs-reset", "gpu-unreadable")  # one off the bus forbids it by itself (runbook.yaml)
HARDWARE = ("gpu-off-the-bus", *BEFORE_PROCESSES)


@dataclass
class GpuPlans:
    """Plans on offer and why others are not."""

    plans: list[Plan] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)  # containers that a plan would restart, with who is at work in them


def offer(view: GpuView, verdicts: tuple[GpuVerdict, ...], jobs: Jobs) -> GpuPlans:
    """Every plan for causes that are confirmed; nothing at all where an identity or a needed reading is missing."""
    found = GpuPlans()
    sure = [v for v in verdicts if v.confirmed and not v.benign]
    hardware = tuple(v for v in verdicts if v.slug in BEFORE_PROCESSES and v.credible)
    on = going_on(view, verdicts, hardware, jobs)
    if stop := _why_none(view):
        found.withheld += [*on.notes, *([stop] if sure else [])]
        return found
    found.plans += [on.plan] if on.plan else []
    found.withheld += on.notes
    _clean_up(view, verdicts, sure, found, kill_sets(view, verdicts, hardware, jobs))
    _reset(view, sure, found)
    _quarantine(view, sure, found)
    return found


def _why_none(view: GpuView) -> str:
    if view.evidence.hands_off:
        return f"{view.evidence.node} is marked hands_off: nothing is offered, everything below is by hand"
    missing = [n for n in ("facts", "gpus", "processes") if not isinstance(getattr(view.evidence, n), Known)]
    if missing:
        return f"no change is offered while {', '.join(missing)} could not be read"
    if view.facts is None or not view.facts.boot_id:
        return "no change is offered without the node's boot id"
    return ""


def _clean_up(view: GpuView, verdicts: tuple[GpuVerdict, ...], sure: list[GpuVerdict], found: GpuPlans, kin: KillSets) -> None:
    found.withheld += kin.notes
    anew = _boxes(view, verdicts, sure, kin)
    found.withheld += anew.withheld
    found.groups += anew.groups
    steps = [_terminate(view, f) for f in kin.families] + [_restart_container(view, box, anew.moving[box]) for box in anew.causes]
    causes = {s for f in kin.families for s in f.slugs} | {s for slugs in anew.causes.values() for s in slugs}
    gone = {p.pid for f in kin.families for p in f.members}
    alone = any(v.slug == "job-without-process" for v in sure)
    count = _reset_count(view, verdicts, gone) if alone or kin.families else None
    if count:
        steps.append(count)
        causes |= {"job-without-process"} if alone else set()
    if not steps:
        return
    slugs = tuple(sorted(causes))
    found.plans.append(Plan(name="clean up only", steps=tuple(steps), for_causes=slugs, why="ends what is stuck"))
    again = _restarts(view, kin.families, bool(alone and count), gone, found)
    if again:
        why = "ends what is stuck and starts the job by the fleet file's command"
        found.plans.append(Plan(name="clean up and restart", steps=(*steps, *again), for_causes=slugs, why=why))


def _boxes(view: GpuView, verdicts: tuple[GpuVerdict, ...], sure: list[GpuVerdict], kin: KillSets) -> Boxes:
    """Containers to restart and for which causes."""
    wanted = {box: set(slugs) for box, slugs in kin.boxes.items()}
    for v in (v for v in sure if v.container):
        wanted.setdefault(v.container, set()).add(v.slug)
    return boxes(view, verdicts, wanted)


def _terminate(view: GpuView, f: KillSet) -> Step:
    pids = ", ".join(str(p.pid) for p in f.members)
    freed = f"{size(f.bytes)} of GPU memory is free again" if f.gpus else "no GPU memory is involved"
    return ended(
        view.evidence.node,
        view.facts.boot_id if view.facts else "",
        f.members,
        sid=f.sid,
        cgroup=f.cgroup,
        gpu_uuids=f.gpus,
        freed=f.bytes,
        grace_s=GRACE_S,
        effect=f"pid {pids} gone; {freed}",
        loses="what these processes have not saved since their last checkpoint",
    )


def _restart_container(view: GpuView, box: str, moving: tuple[Moving, ...]) -> Step:
    boot = view.facts.boot_id if view.facts else ""
    return Step(
        kind="restart-container",
        owner=view.evidence.node,
        args=RestartContainer(container=box, boot_id=boot, engine=view.evidence.engine, moving=moving).plain(),
        commands=(shlex.join((*view.evidence.engine, "restart", box)),),
        effect=f"container {box[:12]} runs again with its devices; its defunct processes are gone",
        loses="everything that runs in the container and is not saved",
    )


def _reset_count(view: GpuView, verdicts: tuple[GpuVerdict, ...], ended: set[int]) -> Step | None:
    """The leader's count, only if it counts jobs here and no live job process will be left."""
    leader = view.leader
    peer = next((p for p in leader.peers if p.node == view.evidence.node), None) if leader else None
    if leader is None or peer is None or peer.jobs <= 0 or not leader.is_leader or not leader.url or not view.jobs:
        return None
    doubtful = any(v.slug == "job-without-process" and not v.confirmed for v in verdicts)
    working = {
        p for p, held in view.holdings.items() if held and p in view.processes and view.processes[p].state not in "ZX"
    }
    if doubtful or (set(live_job_processes(view)) | working) - ended:
        return None
    gone = tuple(Gone(pid=p, start_ticks=view.processes[p].start_ticks) for p in sorted(ended))
    boot = view.facts.boot_id if view.facts else ""
    body = json.dumps({"node_id": peer.node})
    post = ("curl", "-X", "POST", f"{leader.url.rstrip('/')}/admin/reset_node_jobs")
    head = ("-H", "Content-Type: application/json", "-d", body)
    return Step(
        kind="reset-node-jobs",
        owner="leader",
        args=ResetNodeJobs(node=peer.node, leader_url=leader.url, gone=gone, boot_id=boot).plain(),
        commands=(shlex.join((*post, *head)),),
        effect=f"the leader counts no job on {peer.node}",
    )


def _restarts(view: GpuView, kin: list[KillSet], alone: bool, ended: set[int], found: GpuPlans) -> list[Step]:
    """One start per job whose processes were ended, unless some of that job still run."""
    names = {p.job for f in kin for p in f.members if p.job}
    if alone and not names:
        could = [j.name for j in view.evidence.jobs if j.restart]
        names = set(could) if len(could) == 1 else set()
        if len(could) > 1:
            found.withheld.append(f"no restart is offered: which of {', '.join(could)} was meant is not known")
    steps = []
    for name in sorted(names):
        job = view.jobs.get(name)
        left = [p for p in live_job_processes(view) if view.processes[p].job == name and p not in ended]
        if left:
            mine = (p.pid for f in kin for p in f.members if p.job == name)
            line = f"job {name} is not restarted: pid {', '.join(map(str, left))} of it still runs"
            found.withheld.append(NotDone(line, "restart-job", (name, *mine)))
        elif job is not None and job.restart:
            steps.append(_restart_job(view, name, job.restart))
    return steps


def _restart_job(view: GpuView, name: str, argv: tuple[str, ...]) -> Step:
    return Step(
        kind="restart-job",
        owner=view.evidence.node,
        args=RestartJob(job=name, argv=argv).plain(),
        commands=(detached(argv),),
        effect=f"job {name} runs again, from its last checkpoint if it has one",
    )


def _reset(view: GpuView, sure: list[GpuVerdict], found: GpuPlans) -> None:
    for v in sure:
        gpu = next((g for g in view.gpus if g.uuid in v.gpus), None)
        if v.slug != "gpu-needs-reset" or gpu is None:
            continue
        why_not = _why_no_reset(view) if v.reset else "what is asked for is a reboot of the node"
        if why_not:
            found.withheld.append(NotDone(f"GPU {gpu.index} is not reset from here: {why_not}", "reset-gpu", [f"GPU {gpu.index}"]))
            continue
        step = Step(
            kind="reset-gpu",
            owner=view.evidence.node,
            args=ResetGpu(uuid=gpu.uuid, bus_id=gpu.bus_id, boot_id=view.facts.boot_id if view.facts else "").plain(),
            commands=(f"nvidia-smi --gpu-reset -i {gpu.uuid}",),
            effect=f"GPU {gpu.index} answers again and asks for no recovery",
            loses="anything on that GPU (no process is on it now)",
        )
        found.plans.append(Plan(name=f"reset GPU {gpu.index}", steps=(step,), for_causes=(v.slug,), settle_s=10))


def _why_no_reset(view: GpuView) -> str:
    """Reasons that forbid a reset; NVLink peers are reset together, so every GPU of the node must be free."""
    if view.in_container or view.facts is None:
        return "a container can't reset a GPU; its provider or host can"
    if not view.facts.root:
        return "it needs root on the host"
    split = [g.index for g in view.gpus if g.mig is not False]
    if split:
        return f"GPU {', '.join(map(str, split))} uses MIG, or does not say"
    if view.device_holders is None:
        return "who has its device files open could not be read"
    if view.device_holders:
        return f"pid {', '.join(map(str, view.device_holders))} has GPU device files open"
    busy = [g.index for g in view.gpus if not isinstance(g.processes, Known) or g.processes.value]
    return f"processes are (or may be) on GPU {', '.join(map(str, busy))}" if busy else ""


def _quarantine(view: GpuView, sure: list[GpuVerdict], found: GpuPlans) -> None:
    causes = tuple(sorted({v.slug for v in sure if v.slug in HARDWARE}))
    if not causes or view.in_container:
        return
    reason = "; ".join(sorted({f"{v.slug}: {v.subject}" for v in sure if v.slug in HARDWARE}))
    mark = json.dumps({"node": view.evidence.node, "reason": reason, "by": "by hand"})
    step = Step(
        kind="quarantine-node",
        owner=view.evidence.node,
        args=QuarantineNode(node=view.evidence.node, reason=reason, path=QUARANTINE).plain(),
        commands=(f"mkdir -p {posixpath.dirname(QUARANTINE)}", f"set -C; printf '%s\\n' {shlex.quote(mark)} > {QUARANTINE}"),
        effect=f"{view.evidence.node} is marked: people and schedulers that read the mark give it no work",
        loses="the capacity of the whole node, GPUs that still work included",
    )
    found.plans.append(Plan(name="quarantine the node", steps=(step,), for_causes=causes))
