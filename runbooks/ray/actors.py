"""Why a job's actors died, by their own death record, their log and the kernel log of their node."""

from runbooks.core.host_facts import KernelOom
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason, value_of, value_or
from runbooks.core.same_process import MACHINE, Numbered, Same, same_process
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.cluster import NAME
from runbooks.ray.errors import first_error
from runbooks.ray.evidence import Actor, Evidence, LogFile, NodeLogs, RayJob
from runbooks.ray.identity import actor_at, ip_of, of_job
from runbooks.ray.parsers.ray_log import is_of_worker, said_by, worker_logs
from runbooks.ray.words import cause
from runbooks.triage.text import meanings, says

PURPOSE = ("OWNER_DIED", "OUT_OF_SCOPE", "RAY_KILL")  # Ray's own codes of an end that the program wanted
DIED = {
    "actor-out-of-memory": ("ray-job/actor-out-of-memory",),
    "actor-node-lost": ("ray-job/actor-node-lost",),
}  # what the words of a death record say by themselves
OF_RECORD = tuple(DIED)  # Ray or the kernel ended the process: its own log has no word of it
INTERFACE = {
    "nccl-interface": (
        "ray-job/nccl-interface",
        "distributed-setup/no-interface",
        "distributed-setup/interface-wrong",
        "distributed-setup/peer-unreachable",
        "rendezvous/gloo-wrong-address",
    )
}  # names that the knowledge base has for a network that does not fit
MEANS = {
    "actor-gpu-memory": (
        "memory-pressure/model-too-large",
        "memory-pressure/fragmented",
        "memory-pressure/gpu-held-by-others",
        "memory-pressure/ranks-on-one-gpu",
        "memory-pressure/out-of-memory-bare",
    ),
    "actor-import-error": ("ray-job/actor-import-error", "host/package-missing"),
    **INTERFACE,
    "nccl-timeout": ("nccl/timeout-unexplained", "nccl/timeout-while-one-rank-prepares"),
    "actor-crashed": ("ray-job/actor-crashed", "container/crashed-by-signal"),
}  # our causes of an actor's end that its own words can name, in this order, and their names in the knowledge base


CLUSTER = {**DIED, **INTERFACE, "version-mismatch": ("ray-job/version-mismatch", "container-death/version-mismatch")}


def named_by_driver(error: str) -> str:
    """Which cause of this runbook the first error in the driver's log names, "" if none; what killed an actor only by a worker's line."""
    means = CLUSTER | MEANS if is_of_worker(error) else CLUSTER
    return next(iter(meanings(error, means)), "") if error else ""


def node_logs(e: Evidence) -> tuple[NodeLogs, ...]:
    """The nodes' parts that were read."""
    return tuple(n for n in map(value_of, e.node_logs) if n is not None)


def files_of(n: NodeLogs) -> tuple[LogFile, ...]:
    """Its logs, as far as they were listed."""
    return value_or(n.logs, ())


def ooms_of(n: NodeLogs) -> tuple[KernelOom, ...]:
    """Its kernel's kills for memory, as far as they were read."""
    return value_or(n.ooms, ())


def log_of(e: Evidence, actor: Actor) -> Known[LogFile] | Absent | Unknown:
    """The stderr file of the actor's process, on its node: absent where its node was read and has none."""
    here = [n for n in node_logs(e) if n.ip == ip_of(actor, e.nodes)]
    files = {f.path: f for n in here for f in files_of(n)}
    found = [files[p] for p in worker_logs(actor.pid, actor.job_id, tuple(files))] if actor.pid else []
    if len(found) > 1:
        return Unknown(reason=UnknownReason.FAILED, detail=f"{len(found)} logs of this job are of a process with the number {actor.pid}")
    if found:
        return found[0].lines if isinstance(found[0].lines, Unknown) else Known[LogFile](value=found[0])
    lost = [n.logs for n in here] if here else list(e.node_logs)
    none = Unknown(reason=UnknownReason.NOT_ASKED, detail="the fleet file names no node of that address")
    unread = [x for x in lost if isinstance(x, Unknown)]
    return unread[0] if unread else Absent(proof="its log was not found") if here else none


def judge_actors(e: Evidence, job: RayJob, window_s: float) -> list[Cause]:
    """One cause per dead actor, the first death's kind first; those ended on purpose are no fault."""
    dead = [a for a in value_of(e.actors) or () if a.state == "DEAD" and not a.name.startswith(NAME)]
    real = [(a, mine) for a in dead if (mine := of_job(a, job)) is not False and not _on_purpose(a)]
    return [_death(e, a, window_s) if mine else _perhaps(_death(e, a, window_s)) for a, mine in real][:8]


def _perhaps(c: Cause) -> Cause:
    """The same, where nothing says that it was an actor of the job."""
    asks = "whether that actor was one of this job: its record or the job's does not say"
    return c.model_copy(update={"certainty": Certainty.POSSIBLE, "decides": (asks, *c.decides)})


def _on_purpose(a: Actor) -> bool:
    return any(p in a.death_reason for p in PURPOSE) or says(a.death_message, "ray-job/stopped-on-purpose")


def _kill(e: Evidence, a: Actor, window_s: float) -> tuple[KernelOom | None, Same]:
    """The kernel's last kill that may be of that process, and whether it surely is. The kernel gives the machine's own numbers."""
    found: dict[Same, KernelOom] = {}
    for n in node_logs(e):
        actor = actor_at(e, a, n)
        if actor is None:
            continue
        for k in ooms_of(n):
            killed = Numbered(pid=k.pid, host=n.ip, namespace=MACHINE, ended_s=k.at.timestamp())
            found[same_process(actor, killed, window_s)] = k
    best = next((s for s in (Same.YES, Same.UNKNOWN) if s in found), Same.NO)
    return (None if best is Same.NO else found[best]), best


def _open_kill(e: Evidence, a: Actor) -> tuple[str, ...]:
    """What would decide whether a kill of that number was the actor's."""
    here = [n for n in node_logs(e) if n.ip == ip_of(a, e.nodes)]
    number = "when that actor died: the kill is of a process of that number"
    inside = "whether Ray runs in a container there: the kernel log has the machine's own numbers"
    return (*((number,) if a.ended_at is None else ()), *((inside,) if not here or here[0].namespace is None else ()))


def _death(e: Evidence, a: Actor, window_s: float) -> Cause:
    log = log_of(e, a)
    lines = value_or(log.value.lines, ()) if isinstance(log, Known) else ()
    text = a.death_message
    ip = ip_of(a, e.nodes)
    subject = f"{a.class_name} {f'pid {a.pid}' if a.pid else 'without a process'} on {ip or a.node_id[:12] or 'an unknown node'}"
    driver: tuple[str, ...] = value_or(e.driver_log, ())
    own = said_by(driver, a.pid, ip, _head(e)) if a.pid else ()
    error = first_error((*lines, *own, *text.splitlines()))
    kill, same = _kill(e, a, window_s)
    slug, sure = _kind(a, text, error, same is Same.YES)
    if isinstance(log, Unknown) and slug not in OF_RECORD and sure is Certainty.CONFIRMED:  # its log may name what came first
        sure = Certainty.LIKELY
    if same is Same.UNKNOWN and slug == "actor-failed":
        slug, sure = "actor-out-of-memory", Certainty.LIKELY
    words = (
        f"kernel: {kill.text}" if kill else "",
        error,
        f"death record: {a.death_reason} {text[:200]}".strip(),
        _where(log),
    )
    check = (
        ()
        if sure is Certainty.CONFIRMED
        else _open_kill(e, a)
        if same is Same.UNKNOWN
        else (f"the end of the worker's log of pid {a.pid} on {ip}", "the kernel log there")
    )
    return cause(slug, sure, subject, *words, decides=check)


def _head(e: Evidence) -> str:
    """The head's address, where a job's driver runs unless it asked for another node; "" where that is not known."""
    return next((n.ip for n in value_of(e.nodes) or () if n.is_head), "")


def _where(log: Known[LogFile] | Absent | Unknown) -> str:
    if isinstance(log, Known):
        return f"its log: {log.value.node}:{log.value.path}"
    return log.proof if isinstance(log, Absent) else f"its log was not read ({log.why})"


def _kind(a: Actor, text: str, error: str, killed: bool) -> tuple[str, Certainty]:
    sure = Certainty.CONFIRMED
    if killed or "OOM" in a.death_reason:
        return "actor-out-of-memory", sure
    if "NODE_DIED" in a.death_reason:
        return "actor-node-lost", sure
    for slug in meanings(text, DIED):
        return slug, sure
    for slug in meanings((error, text), MEANS):
        return slug, Certainty.LIKELY if slug == "nccl-timeout" else sure
    return ("actor-failed", sure) if error else ("actor-failed", Certainty.POSSIBLE)
