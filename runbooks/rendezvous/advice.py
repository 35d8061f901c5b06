"""What a person must do, must not do, and the exact command lines that are proposed and never run."""

from runbooks.core.verdict import Cause, Certainty
from runbooks.rendezvous.causes import command_line
from runbooks.rendezvous.evidence import Agent, Evidence
from runbooks.rendezvous.launches import live_agents
from runbooks.rendezvous.runs import CLEARABLE

_ALWAYS = (
    "do not delete /torch/elastic or /torchelastic as a whole: every job's state and store lies below it",
    "do not restart etcd with an empty data folder: every running job loses its rendezvous within 2 s",
    "do not use `etcdctl del --prefix`: it speaks v3, sees none of these v2 keys and deletes nothing",
    "do not kill by port number alone: the holder may be a healthy job",
)
_BOTH = "do not delete only the rendezvous key: the next run reads the old address from the store and hangs"
_FOR = {
    "live-run": "do not delete its keys: its agents lose the rendezvous and the job dies",
    "still-joining": "do not delete its keys while nodes are still joining",
    "some-dead": "do not delete its keys: the living agents die with them",
    "orphan-worker": "do not kill the worker without asking: it may still train, and its peers fail with it",
    "all-dead": "do not delete anything: the next run drops the dead by itself",
    "unreadable-state": "do not unpickle the value to look at it: a pickle runs code",
    "closed-round": _BOTH,
    "dead-waiting": _BOTH,
    "store-keys-left": "do not start the id again before these keys are gone: it would hang in silence",
    "store-host-died": "do not restart only the other nodes or look for stale keys: the store is gone",
    "store-never-hosted": "do not look for stale keys or raise the time-out: nobody will ever listen there",
    "proxy-closes": "do not raise the time-out or clean keys, and do not turn the mesh off for the whole namespace",
    "store-unreachable-from-node": "do not restart the others: the store lives",
    "store-shared": "do not start them all again at the same endpoint",
    "run-id-collision": "do not delete the shared id's keys: they belong to the other job as well",
    "etcd-access": "do not switch authentication off to get in: every job's state lies behind it",
    "etcdctl-v3": "do not take an empty answer of `etcdctl get --prefix` for a clean etcd: it looks in another store",
    "etcd-full": "do not disarm the alarm without making room: it comes back",
    "etcd-v2-off": "do not look for the keys with etcdctl in v3: they are not there",
}
_DO = {
    "all-dead": "start the job again with the same id; it recovers by itself within about 30 s",
    "some-dead": "restart the agents on the hosts named as gone; nothing needs to be deleted",
    "orphan-worker": "decide whether its work is kept; end the job on every node before a new start",
    "run-id-collision": "give each job its own --rdzv-id",
    "settings-differ": "start every node with the same --rdzv-id, --rdzv-endpoint and --nnodes",
    "min-above-existing": "lower the minimum in --nnodes or add nodes",
    "waiting-for-nodes": "start the missing nodes",
    "late-nodes": "raise last_call_timeout so that slow nodes are waited for; where no agent of a later round has a worker, "
    "end all agents of the run and start them together",
    "below-min-nodes": "bring lost nodes back or lower the minimum; check the newest whole checkpoint first",
    "etcd-access": "give the rendezvous section the files (`tls`) and the user (`auth`) that this etcd asks for",
    "etcdctl-v3": "use `etcdctl` with ETCDCTL_API=2 (`ls --recursive`), or the curl lines below; delete by this runbook",
    "etcd-v2-off": "start etcd with --enable-v2=true, or use --rdzv-backend=c10d",
    "etcd-v2-gone": "use etcd 3.5 with --enable-v2=true, or --rdzv-backend=c10d",
    "etcd-unreachable-from-node": "let that node reach the endpoint (route, firewall), then start it again",
    "endpoint-unresolvable": "make the name resolve on that node, or use an address",
    "etcd-slow-disk": "move etcd's data folder to a disk of its own",
    "port-other-job": "choose another port",
    "port-time-wait": "wait a minute, or choose another port",
    "master-loopback": "give an address that the other nodes reach",
    "master-unresolvable": "make MASTER_ADDR resolve on that node",
    "master-wrong": "check that MASTER_ADDR is the rank 0 node's address",
    "plain-python": "start it with torchrun",
    "store-host-died": "restart the whole group with a store host that lives, or use etcd",
    "store-never-hosted": "use that machine's own host name as --rdzv-endpoint, or is_host=1 in --rdzv-conf there; or make names resolve",
    "proxy-closes": "start the training pods without the proxy's injection (their other containers: kubectl get pod), then the job anew",
    "store-unreachable-from-node": "let that node reach the endpoint (name, route, firewall), then start it again",
    "store-shared": "give each job its own endpoint and id",
    "clock-skew": "set the clocks (chrony or NTP) on the nodes named",
    "unreadable-state": "find out who wrote that key; use a new run id meanwhile",
}


def must_not(causes: tuple[Cause, ...], evidence: Evidence) -> tuple[str, ...]:
    """What must not be done here, each with its reason."""
    etcd = _ALWAYS if any(e.startswith("http") for e in evidence.endpoints) else _ALWAYS[3:]
    return tuple(dict.fromkeys([_FOR[c.slug] for c in causes if c.slug in _FOR] + list(etcd)))


def do_now(causes: tuple[Cause, ...], evidence: Evidence, planned: bool) -> tuple[str, ...]:
    """What a person must do now."""
    sure = [c for c in causes if not c.innocent and c.certainty is not Certainty.POSSIBLE]
    words = [f"{c.subject}: {_DO[c.slug]}" for c in sure if c.slug in _DO]
    unsure = [c for c in causes if c.slug in CLEARABLE and c.certainty is Certainty.POSSIBLE]
    words += [f"{c.subject}: find out first: {'; '.join(c.decides)}" for c in unsure]
    off = sorted({v.node for v in evidence.nodes} & set(evidence.hands_off))
    if off and any(c.slug in CLEARABLE for c in sure):
        words.append(f"nothing is cleared from here: {', '.join(off)} is hands_off; ask its owner")
    if planned:
        words.append("approve one of the plans below")
    if any(c.slug == "below-min-nodes" for c in sure):
        words.append(_checkpoint(evidence))
    return tuple(dict.fromkeys(words))


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
