"""What may be done: start the worker, correct the row, end the pod and let the orchestrator spawn another. As data."""

from runbooks.core.args.workers import EndPod, MarkWorkerRow, SetVariable, StartWorker
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.typed_pods import asking, marking
from runbooks.core.verdict import Cause, Certainty
from runbooks.core.worker_ids import is_plain
from runbooks.parsers.runpod import Phase, Pod
from runbooks.spawning.around import DONE
from runbooks.spawning.evidence import PodInside
from runbooks.spawning.inside import UP
from runbooks.spawning.parsers.orchestrator_log import last_words
from runbooks.spawning.service import bring_back
from runbooks.spawning.typed import setting, starting
from runbooks.spawning.view import SpawningView

STARTS = ("worker-not-started", "worker-died")
ROW_FOLLOWS = ("pod-gone", "pod-never-existed", "pod-terminated")
RESPAWN = (
    "host-gpus-taken", "gpus-lost-on-resume", "port-22-not-exposed", "gpu-broken-on-host", "driver-too-old", "worker-died",
    "disk-full-on-host", "outbid", "pod-stopped-by-provider",
)  # fmt: skip
OTHER_HOST = ("host-gpus-taken", "gpus-lost-on-resume", "gpu-broken-on-host", "driver-too-old", "disk-full-on-host")


def offer(v: SpawningView) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """(plans, why others are withheld)."""
    sure = [c for c in v.causes if c.certainty is Certainty.CONFIRMED and not c.benign]
    made = [_variable(v, sure), bring_back(v, sure), _start(v, sure), _promote(v, sure), _row(v, sure), *_respawn(v, sure)]
    return tuple(p for p in made if isinstance(p, Plan)), tuple(p for p in made if isinstance(p, str) and p)


def _start(v: SpawningView, sure: list[Cause]) -> Plan | str:
    """The worker's process, under a lock file on the pod: one that was never started, or one that ended and left no error."""
    slug = next((c.slug for c in sure if c.slug in STARTS), "")
    if not slug or v.pod is None or v.inside is None:
        return ""
    if any(c.slug in (*RESPAWN, "pod-disk-full") and c.slug not in STARTS for c in sure):
        return "the worker is not started: the pod itself is at fault"
    if not v.e.can_start:
        return "the worker is not started from here: the fleet file has no orchestrator.process.start"
    if not is_plain(v.e.worker):
        return "the worker is not started from here: its id is none that may stand in a command"
    if any(t.worker == v.e.worker for t in v.tasks) or not isinstance(v.e.tasks, Known):
        return "the worker is not started: it holds a claim, or the tasks could not be read"
    if slug == "worker-died" and (why := _why_not_again(v, v.inside)):
        return f"the worker is not started again in its pod: {why}"
    first = bool(v.ssh and v.ssh.first_seen)
    args = StartWorker(pod=v.pod.id, worker=v.e.worker, boot_id=v.inside.boot_id, argv=v.e.start_argv)
    step = Step(
        kind="start-worker-unverified" if first else "start-worker",
        owner=f"pod:{v.pod.id}",
        args=args.plain(),
        commands=(starting(args, v.pod, v.e.names),),
        effect="the worker's process runs; the orchestrator promotes it at its next cycle" if v.row is None or v.row.status in UP
        else "the worker's process runs again in its pod, and its disks are unchanged",
        loses="nothing"
        + (
            f"; nobody vouches for the pod's host key ({v.ssh.trust}), so a person must allow it"
            if first and v.ssh
            else ""
        ),
    )
    return Plan(name="start the worker", steps=(step,), for_causes=(slug,), settle_s=20)


def _why_not_again(v: SpawningView, inside: PodInside) -> str:
    """Why the process is not started again in its pod: it would fail the same way, or nothing would promote it."""
    if last_words(inside.log) or last_words(v.stored):
        return "its log shows the error that ended it: a new start would fail the same way"
    if v.row is not None and v.row.status in UP and (not v.cycling or v.has("orchestrator-down")):
        return "the orchestrator is not seen cycling now, so nothing would promote it"
    return common_cause(v)


def _variable(v: SpawningView, sure: list[Cause]) -> Plan | str:
    """The missing private half, if this machine has the one that belongs to the public half there."""
    if not any(c.slug == "private-half-missing" for c in sure) or not isinstance(v.e.variables, Known):
        return ""
    x = v.e.variables.value
    if not x.here_fingerprint or x.here_fingerprint != x.public_fingerprint:
        return (
            f"{x.private_name} is not set from here: this machine has no private key of the pair {x.public_fingerprint}"
        )
    step = Step(
        kind="set-railway-variable",
        owner="orchestrator",
        args=SetVariable(name=x.private_name, fingerprint=x.here_fingerprint).plain(),
        commands=(setting(x.private_name, v.e.names),),
        effect=f"the orchestrator has the private half of {x.public_fingerprint}",
        loses="the platform deploys the orchestrator again: a short pause of its cycles",
    )
    return Plan(name="set the variable", steps=(step,), for_causes=("private-half-missing",), settle_s=60)


def _promote(v: SpawningView, sure: list[Cause]) -> Plan | str:
    if not any(c.slug == "worker-not-promoted" for c in sure) or v.row is None:
        return ""
    if v.cycling is not False and not v.has("orchestrator-down"):
        return "the row is not promoted from here while the orchestrator may do it itself: see its promotion step"
    return Plan(
        name="promote the row",
        steps=(_mark(v, "active", "the worker runs and reports"),),
        for_causes=("worker-not-promoted",),
        settle_s=5,
    )


def _row(v: SpawningView, sure: list[Cause]) -> Plan | str:
    """The row follows a pod that is proven gone."""
    causes = tuple(c.slug for c in sure if c.slug in ROW_FOLLOWS)
    terminated = v.pod is not None and v.pod.terminated and v.apart
    if v.row is None or v.row.status in DONE or not (causes or terminated):
        return ""
    held = [t.id for t in v.tasks if t.worker == v.e.worker]
    note = f"tasks in progress at it stay as they are: {', '.join(held)}" if held else "nothing"
    step = _mark(v, "terminated", "the row says what the provider says")
    step = step.model_copy(update={"loses": note})
    return Plan(name="mark the row", steps=(step,), for_causes=causes or ("pod-stopped-by-user",), settle_s=2)


def _mark(v: SpawningView, status: str, effect: str) -> Step:
    assert v.row is not None  # noqa: S101
    beat = v.row.heartbeat.isoformat() if v.row.heartbeat else None
    args = MarkWorkerRow(worker=v.row.id, was=v.row.status, to=status, pod=v.row.pod_id, heartbeat=beat)
    return Step(
        kind="mark-worker-row",
        owner=f"worker:{v.row.id}",
        args=args.plain(),
        commands=(marking(args, v.e.names),),
        effect=effect,
    )


def _respawn(v: SpawningView, sure: list[Cause]) -> list[Plan | str]:
    """End or stop the pod by its id; the orchestrator spawns the next one. Only proposed where nothing would."""
    causes = tuple(c.slug for c in sure if c.slug in RESPAWN)
    pod = v.pod
    if not causes or pod is None or pod.terminated or pod.phase is Phase.TERMINATED:
        return []
    why = _why_not(v, pod)
    if why:
        return [f"pod {pod.id} is not terminated from here: {why}. By hand, after that: {asking(v.e.names, pod.id, method='DELETE')}"]
    other = " and must not get the same machine again" if any(c in OTHER_HOST for c in causes) else ""
    held = [t.id for t in v.tasks if t.worker == v.e.worker]
    tasks = f"; in progress at it and to be given back: {', '.join(held)}" if held else "; no task is in progress at it"
    args = EndPod(
        pod=pod.id, name=pod.name, status=pod.status, machine=pod.machine_id, worker=v.e.worker, tasks=tuple(sorted(held))
    )
    end = Step(
        kind="terminate-pod", owner=f"pod:{pod.id}", args=args.plain(), commands=(asking(v.e.names, pod.id, method="DELETE"),),
        effect=f"pod {pod.id} is gone; the orchestrator spawns another{other}", loses=_disk(pod) + tasks,
    )  # fmt: skip
    no_stop = _why_no_stop(v, pod)
    why = f"it cannot be stopped instead: {no_stop}" if no_stop else ""
    ending = Plan(name="end the pod", steps=(end,), for_causes=causes, why=why, settle_s=10)
    return [ending] if no_stop else [_stop(v, pod, end, causes), ending]


def _why_no_stop(v: SpawningView, pod: Pod) -> str:
    """Why the gentler choice, which keeps its volume disk, is none."""
    if pod.network_volume:
        return "a pod with a network volume is only ever ended. What is on that volume stays"
    if pod.interruptible:
        return "an interruptible pod is only ever ended"
    return "" if v.running else "it does not run"


def _disk(pod: Pod) -> str:
    disk = f"its container disk ({pod.disk_gb:g} GB)" if pod.disk_gb else "its container disk"
    kept = (
        "what is on its network volume stays" if pod.network_volume else "and its volume disk: it has no network volume"
    )
    return f"{disk}{'; ' if pod.network_volume else ' '}{kept}"


def _stop(v: SpawningView, pod: Pod, end: Step, causes: tuple[str, ...]) -> Plan:
    """The gentler choice: its volume disk stays, and costs on."""
    step = end.model_copy(update={
        "kind": "stop-pod", "commands": (asking(v.e.names, pod.id, "/stop", "POST"),),
        "effect": f"pod {pod.id} is stopped: its GPUs cost nothing any more, its volume disk stays and costs on",
        "loses": end.loses.replace(_disk(pod), "what is on its container disk outside the volume; its machine's GPUs may be taken"),
    })  # fmt: skip
    return Plan(name="stop the pod and keep its volume disk", steps=(step,), for_causes=causes, settle_s=10)


def _why_not(v: SpawningView, pod: Pod) -> str:
    """Reasons that forbid ending a pod."""
    if pod.locked:
        return "the provider marks it as locked"
    if v.reports:
        return "its worker reports: the row's heartbeat is fresh"
    if not v.cycling:
        return "the orchestrator is not seen cycling now, so nothing would spawn the next one"
    if not isinstance(v.e.tasks, Known):
        return "the tasks in progress could not be read"
    held = [t.id for t in v.tasks if t.worker == v.e.worker]
    if held and v.inside and v.inside.processes:
        return f"its worker's process runs, and tasks are in progress at it: {', '.join(held[:5])}"
    return common_cause(v)


def common_cause(v: SpawningView) -> str:
    """Most spawns of the last half hour failed: another one would too. Those that may still come up don't count."""
    recent = [w for w in v.workers if (v.age(w.created) or 1e9) <= v.limits.breaker_window_s]
    young = [w for w in recent if w.status in UP and (v.age(w.created) or 0.0) <= v.limits.spawning_s]
    bad = [w for w in recent if w not in young and (w.status in UP or (w.status in DONE and w.heartbeat is None))]
    known = len(recent) - len(young)
    if known >= v.limits.breaker_least and len(bad) > v.limits.breaker_share * known:
        return f"{len(bad)} of {known} spawns in {v.limits.breaker_window_s / 60:.0f} min did not come up: find the common cause"
    return "" if isinstance(v.e.workers, Known) else "the other spawns of the last half hour could not be read"
