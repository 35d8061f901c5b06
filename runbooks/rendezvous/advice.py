"""What a person must do, must not do, and the exact command lines that are proposed and never run."""

from runbooks.core.judgment import credible
from runbooks.core.verdict import Cause
from runbooks.rendezvous.causes import command_line
from runbooks.rendezvous.evidence import Agent, Evidence
from runbooks.rendezvous.launches import live_agents
from runbooks.rendezvous.runs import CLEARABLE

_ALWAYS = (
    "delete /torch/elastic or /torchelastic as a whole: every job's state and store lies below it",
    "restart etcd with an empty data folder: every running job loses its rendezvous within 2 s",
    "use `etcdctl del --prefix`: it speaks v3, sees none of these v2 keys and deletes nothing",
    "kill by port number alone: the holder may be a healthy job",
)


def always(evidence: Evidence) -> tuple[str, ...]:
    """What must not be done, whatever was found."""
    return _ALWAYS if any(e.startswith("http") for e in evidence.endpoints) else _ALWAYS[3:]


def besides(causes: tuple[Cause, ...], evidence: Evidence, planned: bool) -> tuple[str, ...]:
    """What a person does besides the remedies."""
    sure = {c.slug for c in credible(causes)}
    words = []
    off = sorted({v.node for v in evidence.nodes} & set(evidence.hands_off))
    if off and sure.intersection(CLEARABLE):
        words.append(f"nothing is cleared from here: {', '.join(off)} is hands_off; ask its owner")
    if planned:
        words.append("approve one of the plans below")
    if "below-min-nodes" in sure:
        words.append(_checkpoint(evidence))
    return tuple(words)


def _checkpoint(evidence: Evidence) -> str:
    counts = [v.facts.value.checkpoints for v in evidence.nodes if v.facts.kind == "known"]
    found = [c for c in counts if c is not None]
    if not found:
        return "whether a checkpoint exists is not known: no `checkpoints` in the rendezvous section"
    if not sum(found):
        return "no checkpoint file exists to recover from"
    return (
        f"{sum(found)} checkpoint files exist to recover from; which of them is whole: "
        f"`gpu-runbooks run checkpoint-fallback {evidence.asks} --fleet FILE`"
    )


def proposals(causes: tuple[Cause, ...], evidence: Evidence) -> tuple[str, ...]:
    """Command lines that would avoid it, for a person to run."""
    words = []
    for cause in causes:
        for agent in live_agents(evidence):
            if (
                f"pid {agent.pid} on {agent.node}" in " ".join(cause.evidence)
                or agent.launch.run_id in cause.subject.split()
            ):
                words += _propose(cause.slug, agent, evidence)
    if any(c.slug in CLEARABLE for c in causes) and not words:
        stamp = f"{evidence.taken_at:%Y%m%d%H%M%S}"
        words.append(f"torchrun … --rdzv-id={(evidence.run or 'job')}-{stamp} …   # a new id never meets old keys")
    return tuple(dict.fromkeys(words))


def _propose(slug: str, agent: Agent, evidence: Evidence) -> list[str]:
    launch, stamp = agent.launch, f"{evidence.taken_at:%Y%m%d%H%M%S}"
    if slug in ("run-id-collision", "unreadable-state", "store-shared", *CLEARABLE):
        return [command_line(agent, rdzv_id=f"{launch.run_id}-{agent.node}-{stamp}")]
    if slug in ("min-above-existing", "waiting-for-nodes", "below-min-nodes"):
        there = max(1, len([a for a in live_agents(evidence) if a.launch.run_id == launch.run_id]))
        return [command_line(agent, nnodes=f"{there}:{launch.max_nodes}")]
    if slug == "late-nodes":
        conf = {**launch.conf, "last_call_timeout": "120"}
        return [command_line(agent, rdzv_conf=",".join(f"{k}={v}" for k, v in conf.items()))]
    if slug in ("port-other-job", "port-old-agent", "port-time-wait"):
        return [command_line(agent, master_port=str((launch.master_port or evidence.port) + 1))]
    return []
