"""Why a job's actors died, by their own death record, their log and the kernel log of their node."""

from runbooks.core.host_facts import KernelOom
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.errors import first_error
from runbooks.ray.evidence import Actor, Evidence, LogFile, NodeLogs, RayJob
from runbooks.ray.parsers.ray_log import worker_log
from runbooks.ray.words import cause, known
from runbooks.triage.text import meanings, says

PURPOSE = ("OWNER_DIED", "OUT_OF_SCOPE", "RAY_KILL")  # Ray's own codes of an end that the program wanted
DIED = {
    "actor-out-of-memory": ("ray-job/actor-out-of-memory",),
    "actor-node-lost": ("ray-job/actor-node-lost",),
}  # what the words of a death record say by themselves
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
    "actor-crashed": ("container/crashed-by-signal",),
}  # our causes of an actor's end that its own words can name, in this order, and their names in the knowledge base


def node_logs(e: Evidence) -> tuple[NodeLogs, ...]:
    """The nodes' parts that were read."""
    return tuple(n for n in map(known, e.node_logs) if n is not None)


def log_of(e: Evidence, actor: Actor) -> LogFile | None:
    """The stderr file of the actor's process, on its node."""
    files = {f.path: f for n in node_logs(e) if n.ip == actor.ip for f in n.logs}
    path = worker_log(actor.pid, tuple(files)) if actor.pid else ""
    return files.get(path)


def judge_actors(e: Evidence, job: RayJob, window_s: float) -> list[Cause]:
    """One cause per dead actor, the first death's kind first; those ended on purpose are no fault."""
    dead = [a for a in known(e.actors) or () if a.state == "DEAD" and a.job_id == job.job_id and job.job_id]
    real = [a for a in dead if not _on_purpose(a)]
    return [_death(e, a, window_s) for a in real][:8]


def _on_purpose(a: Actor) -> bool:
    return any(p in a.death_reason for p in PURPOSE) or says(a.death_message, "ray-job/stopped-on-purpose")


def _kill(e: Evidence, a: Actor, window_s: float) -> tuple[KernelOom | None, bool]:
    """The kernel's kill of that process, and whether it is surely that one: a number is given out again, so its time must fit too."""
    kills = [k for n in node_logs(e) if n.ip == a.ip for k in n.ooms if k.pid == a.pid]
    if a.ended_at is None:
        return (kills[-1] if kills else None), False
    near = [k for k in kills if abs((k.at - a.ended_at).total_seconds()) <= window_s]
    return (near[-1] if near else None), True


def _death(e: Evidence, a: Actor, window_s: float) -> Cause:
    log = log_of(e, a)
    text = a.death_message
    subject = f"{a.class_name} pid {a.pid} on {a.ip or a.node_id[:12] or 'an unknown node'}"
    error = first_error((*(log.lines if log else ()), *text.splitlines()))
    kill, timed = _kill(e, a, window_s)
    where = f"its log: {log.node}:{log.path}" if log else "its log was not found"
    slug, sure = _kind(a, text, error, kill is not None and timed)
    if kill is not None and not timed and slug == "actor-failed":
        slug, sure = "actor-out-of-memory", Certainty.LIKELY
    words = (
        f"kernel: {kill.text}" if kill else "",
        error,
        f"death record: {a.death_reason} {text[:200]}".strip(),
        where,
    )
    check = (
        ()
        if sure is Certainty.CONFIRMED
        else ("when that actor died: the kill is of a process of that number",)
        if kill is not None and not timed
        else (f"the end of the worker's log of pid {a.pid} on {a.ip}", "the kernel log there")
    )
    return cause(slug, sure, subject, *words, decides=check)


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
