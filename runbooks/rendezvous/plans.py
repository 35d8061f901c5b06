"""What may be done about confirmed causes, as steps that carry identities only."""

import shlex
from urllib.parse import quote

from runbooks.core.args.rendezvous import DefragmentEtcd, DeleteRunKeys, ProbeRendezvous, StartEtcd
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.signals import ended
from runbooks.core.verdict import Cause, Certainty
from runbooks.parsers.address import address_of
from runbooks.rendezvous.evidence import Evidence
from runbooks.rendezvous.life import known_nodes, life_of
from runbooks.rendezvous.parsers.etcd_v2 import Backend, Key, RunKeys
from runbooks.rendezvous.ports import leftover_agent
from runbooks.rendezvous.runs import CLEARABLE, subject

SETTLE_S = 2.0  # design: a deletion is done when etcd answers; the settle time only parts the two readings
PROBED_ON = "   # on "
CLEARING = ("gpu-runbooks", "run", "--mode", "approve", "stale-rendezvous")  # offers to clear what a probe left


def plans_for(causes: tuple[Cause, ...], evidence: Evidence, age_s: float) -> tuple[Plan, ...]:
    """One plan per thing that may be done. Only confirmed causes count."""
    sure = [c for c in causes if c.certainty is Certainty.CONFIRMED and not c.benign]
    slugs = {c.slug for c in sure}
    plans = [*_clear(sure, evidence), *_ports(sure, evidence, age_s)]
    if "etcd-down" in slugs and evidence.start and evidence.start_node not in evidence.hands_off:
        plans.append(_start(evidence))
    if "etcd-full" in slugs:
        plans.append(_defragment(evidence))
    return tuple(plans)


def owner(evidence: Evidence) -> str:
    """What is locked while the keys of a rendezvous are changed."""
    return f"etcd:{address_of(evidence.etcd_endpoint)}"  # two rendezvous of the fleet file may share one etcd


def _clear(sure: list[Cause], evidence: Evidence) -> list[Plan]:
    if not (isinstance(evidence.runs, Known) and evidence.name):
        return []
    if {v.node for v in evidence.nodes} & set(evidence.hands_off):
        return []  # a node that asked to be left alone may have a part in any of these runs
    plans = []
    for run in evidence.runs.value.second:
        mine = [c.slug for c in sure if c.slug in CLEARABLE and c.subject == subject(run)]
        if mine and life_of(run.run, run.backend, evidence).dead:
            plans.append(_clear_one(run, tuple(mine), evidence))
    return plans


def _clear_one(run: RunKeys, slugs: tuple[str, ...], evidence: Evidence) -> Plan:
    steps = [_delete(run, evidence)]
    if evidence.probe:
        steps.append(_probe(run, evidence))
    return Plan(
        name=f"clear run {run.run} ({run.backend})",
        steps=tuple(steps),
        for_causes=slugs,
        why="nothing of this run lives on any node; every other key stays",
        settle_s=SETTLE_S,
    )


def delete_order(run: RunKeys) -> list[Key]:
    """The order in which dying half-way leaves nothing worse: store, rendezvous key, folders."""
    if run.backend is Backend.ETCD_V2:
        return [*sorted(run.store, key=_name), *([run.rendezvous] if run.rendezvous else [])]
    counter = [k for k in run.tree if k.key.endswith("/rdzv/version_counter")]
    leaves = sorted((k for k in run.tree if not k.dir and k not in counter), key=_name)
    folders = sorted((k for k in run.tree if k.dir), key=lambda k: (-k.key.count("/"), k.key))
    rounds = [k for k in folders if "/rdzv/v_" in k.key]
    rest = [k for k in folders if k not in rounds]
    return [*leaves, *rounds, *([run.rendezvous] if run.rendezvous else []), *counter, *rest]


def _name(key: Key) -> str:
    return key.key  # etcd lists a folder in any order; the plan's digest must not change with it


def deleting(run: RunKeys, name: str, endpoint: str) -> DeleteRunKeys:
    """Exactly its keys, each with the index that it has now."""
    return DeleteRunKeys(
        rendezvous=name, endpoint=endpoint, backend=run.backend.value, run=run.run,
        guard=(run.rendezvous.key, run.rendezvous.modified) if run.rendezvous else None,
        keys=tuple((k.key, None if k.dir else k.modified) for k in delete_order(run)),
    )  # fmt: skip


def _delete(run: RunKeys, evidence: Evidence) -> Step:
    ordered = delete_order(run)
    return Step(
        kind="delete-run-keys",
        owner=owner(evidence),
        args=deleting(run, evidence.name, evidence.etcd_endpoint).plain(),
        commands=tuple(_curl(evidence.etcd_endpoint, k) for k in ordered),
        effect=f"the {len(ordered)} keys of run {run.run} are gone and only they; the id can be used again",
        loses="the state of a dead run; it is saved first and `gpu-runbooks restore FILE` puts it back",
    )


def _curl(endpoint: str, key: Key) -> str:
    guard = "dir=true" if key.dir else f"prevIndex={key.modified}"
    return shlex.join(["curl", "-sSf", "-X", "DELETE", f"{endpoint}/v2/keys{quote(key.key)}?{guard}"])


def _probe(run: RunKeys, evidence: Evidence) -> Step:
    return Step(
        kind="probe-rendezvous",
        owner=owner(evidence),
        args=ProbeRendezvous(rendezvous=evidence.name, run=run.run, backend=run.backend.value).plain(),
        commands=(probing(run.run, evidence), shlex.join((*CLEARING, f"{evidence.name}/{run.run}"))),
        effect="a short run with the same id forms a world of the expected size; its own keys are cleared after it",
    )


def probing(run: str, evidence: Evidence) -> str:
    """The fleet file's command with the id as one word of it; what follows is where it runs."""
    words, around, where = evidence.probe_command.partition(PROBED_ON)
    return f"{shlex.join(w.replace('{run}', run) for w in shlex.split(words))}{around}{where}"


def _ports(sure: list[Cause], evidence: Evidence, age_s: float) -> list[Plan]:
    if not any(c.slug == "port-old-agent" for c in sure):
        return []
    plans = []
    for node in known_nodes(evidence):
        for port in node.ports:
            old = leftover_agent(port, node, evidence, age_s)
            if old is None or node.node in evidence.hands_off:
                continue
            step = ended(
                node.node,
                node.boot_id,
                (old,),
                sid=old.sid,
                cgroup=old.cgroup,
                grace_s=15,
                effect=f"port {port.port} on {node.node} is free",
                loses="nothing: this agent has no worker and nobody is connected to it",
            )
            plans.append(Plan(name=f"end the old agent on {node.node}", steps=(step,), for_causes=("port-old-agent",)))
    return plans


def _start(evidence: Evidence) -> Plan:
    step = Step(
        kind="start-etcd",
        owner=evidence.start_node,
        args=StartEtcd(rendezvous=evidence.name, node=evidence.start_node, command=evidence.start).plain(),
        commands=(shlex.join(evidence.start),),
        effect=f"etcd answers at {evidence.etcd_endpoint} with the data it had",
    )
    return Plan(name="start etcd", steps=(step,), for_causes=("etcd-down",), settle_s=5.0)


def _defragment(evidence: Evidence) -> Plan:
    endpoint = evidence.etcd_endpoint
    revision = f"ETCDCTL_API=3 etcdctl --endpoints={shlex.quote(endpoint)} endpoint status -w json"
    revision += """ | grep -o '"revision":[0-9]*' | head -1 | cut -d: -f2"""
    etcdctl = f"ETCDCTL_API=3 etcdctl --endpoints={shlex.quote(endpoint)}"
    step = Step(
        kind="defragment-etcd",
        owner=owner(evidence),
        args=DefragmentEtcd(rendezvous=evidence.name, endpoint=endpoint).plain(),
        commands=(
            f'{etcdctl} compact --physical "$({revision})"',
            f"{etcdctl} defrag",
            f"{etcdctl} alarm disarm",
        ),
        effect="the history of old v3 revisions is gone, the file is smaller, the alarm is off",
        loses="old v3 revisions (watchers that lag behind must list again); etcd stops answering for seconds",
    )
    return Plan(name="compact and defragment etcd", steps=(step,), for_causes=("etcd-full",), settle_s=5.0)
