"""Gathers everything that the zombie-GPU judgment looks at, of one node. Reads only."""

from typing import Any

from pydantic import ValidationError

from runbooks.core.containers_config import engine_of
from runbooks.core.fleet import Job, Node, ProgressKind
from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason, value_or
from runbooks.gpu.evidence import Earlier, EarlierProcess, Evidence, Inside, JobFacts, Process, ProgressMark
from tasks.context import Context
from tasks.gpu.container_gpus import Found, read_container_gpus
from tasks.gpu.kernel import read_kernel_log
from tasks.gpu.leader import read_leader
from tasks.gpu.mates_elsewhere import read_elsewhere
from tasks.gpu.observation import read_observation
from tasks.gpu.processes import ProcessReadings
from tasks.gpu.progress import Marks, ProgressFacts, compare_progress, job_logs

NO_GPU = ("", "0", "no", "none", "false", "off")  # values of a label that say so


def gather_zombie_gpu(context: Context) -> Evidence:
    """One node: GPUs and processes over the same window, kernel log, leader, progress, the earlier reading."""
    jobs = context.fleet.jobs_on(context.node.name)
    at, before, (gpus, look, _), after = read_observation(context)
    kernel, kernel_words = read_kernel_log(context)
    containers = Absent(proof="no GPU here") if isinstance(gpus, Absent) else read_container_gpus(context)
    return Evidence(
        node=context.node.name,
        taken_at=at,
        window_s=look.window_s,
        gpu_words=gpu_words(context.node),
        must_have=context.node.gpus,
        facts=look.facts,
        gpus=gpus,
        processes=look.processes,
        device_holders=look.holders,
        kernel=kernel,
        kernel_words=kernel_words,
        leader=read_leader(context),
        progress=_progress(context, jobs, before, after, look),
        log=job_logs(context, jobs, after),
        earlier=read_earlier(context),
        engine=engine_of(context.fleet.containers_on(context.node.name)),
        containers=containers,
        inside=inside_of(look, containers),
        elsewhere=read_elsewhere(context, look, jobs),
        jobs=tuple(_job_facts(context, j) for j in jobs),
        hands_off=context.node.hands_off,
    )


def inside_of(look: ProcessReadings, containers: Found) -> Known[tuple[Inside, ...]] | Unknown:
    """Only of containers that a judgment may ask to be restarted."""
    if not isinstance(look.inside, Known):
        return look.inside
    mine = {p.container for p in value_or(look.processes, ())} | {c.container for c in value_or(containers, ()) if c.nvml}
    return look.inside.model_copy(update={"value": tuple(i for i in look.inside.value if i.container in mine)})


def gpu_words(node: Node) -> tuple[str, ...]:
    """Where the fleet file says that the node has GPUs; () if it does not say so."""
    if node.gpus is not None:
        return (f"gpus: {node.gpus}",) if node.gpus else ()
    said = {k: v for k, v in node.labels.items() if "gpu" in k.lower() and v.lower() not in NO_GPU}
    return tuple(f"label {k}={v}" for k, v in said.items())


def _progress(
    context: Context, jobs: tuple[Job, ...], before: ProgressFacts, after: ProgressFacts, look: ProcessReadings
) -> Marks:
    running = frozenset(p.job for p in value_or(look.processes, ()) if p.job)
    return compare_progress(context, jobs, before, after, running)


def _job_facts(context: Context, job: Job) -> JobFacts:
    return JobFacts(
        name=job.name,
        kind=str(job.kind),
        restart=job.restart,
        warm_up_s=job.warm_up_s,
        progress_configured=any(p.kind is not ProgressKind.NONE for p in job.progress),
        single_node=job.nodes == (context.node.name,) or len(context.fleet.nodes) == 1,
        gpu_hour_cost=job.gpu_hour_cost,
    )


def read_earlier(context: Context) -> Known[Earlier] | Absent | Unknown:
    """Counters of the earlier report that the engine found; Absent when there is none."""
    if context.earlier is None:
        return Absent(proof="no earlier report of this runbook on this node")
    report: dict[str, Any] = context.earlier
    data = report.get("evidence", report)
    try:
        old = Evidence.model_validate(data)
    except ValidationError as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"the earlier report: {str(e)[:300]}")
    if not isinstance(old.facts, Known):
        return Unknown(reason=UnknownReason.NOT_RECORDED, detail="the earlier report does not know its boot id")
    return Known[Earlier](value=_earlier(old, old.facts.value.boot_id, str(report.get("id", ""))))


def _earlier(old: Evidence, boot_id: str, report: str) -> Earlier:
    gpus = value_or(old.gpus, GpuSet(gpus=())).gpus
    marks: tuple[ProgressMark, ...] = value_or(old.progress, ())
    peers = old.leader.value.peers if isinstance(old.leader, Known) else ()
    peer = next((p for p in peers if p.node == old.node), None)
    means = {g.uuid: [s.sm_percent for s in g.samples] for g in gpus if g.samples}
    power = {g.uuid: [s.power_w for s in g.samples if s.power_w is not None] for g in gpus}
    return Earlier(
        taken_at=old.taken_at,
        boot_id=boot_id,
        report=report,
        processes=tuple(_earlier_process(p) for p in value_or(old.processes, ())),
        progress=marks,
        gpu_used_bytes={g.uuid: g.memory_used_bytes for g in gpus},
        gpu_power_w={u: sum(v) / len(v) for u, v in power.items() if v},
        gpu_sm_percent={u: sum(v) / len(v) for u, v in means.items()},
        leader_jobs=peer.jobs if peer else None,
    )


def _earlier_process(p: Process) -> EarlierProcess:
    known = p.read_bytes is not None and p.written_bytes is not None
    io = (p.read_bytes or 0) + (p.written_bytes or 0) if known else None
    return EarlierProcess(pid=p.pid, start_ticks=p.start_ticks, state=p.state, cpu_s=p.cpu_s, io_bytes=io)
