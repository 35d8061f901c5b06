"""Judges whether a distributed launch would come up. Each failed check has the command that fixes it."""

from runbooks.core.base import Frozen
from runbooks.core.headline import of_cause
from runbooks.core.judgment import credible, diagnosis, ordered, state_of
from runbooks.core.launch_config import Launch
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.rules import book, by_the_rules
from runbooks.core.sizes import size
from runbooks.core.unread import missing
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.launch.causes import failed, possible
from runbooks.launch.commands import command_causes, command_unknowns
from runbooks.launch.config_checks import config_causes, world_sizes
from runbooks.launch.evidence import Evidence, LaunchNodeFacts
from runbooks.launch.fixes import MUST_NOT, fix_for
from runbooks.launch.launchers import batch_causes, port_causes
from runbooks.launch.network import address_causes, interface_causes, peer_causes, route_causes
from runbooks.launch.parsers.nccl_interfaces import cards
from runbooks.launch.visible import process_causes

SLUG = "distributed-setup"
HCA = "NCCL_IB_HCA"


class Limits(Frozen):
    """Numbers of this runbook."""

    clock_skew_s: float
    memlock_bytes: int


@by_the_rules("distributed-setup")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The verdict on one launch."""
    if isinstance(evidence.launch, Absent):
        return Diagnosis(state=State.NOT_APPLICABLE, headline=f"nothing to check: {evidence.launch.proof}")
    if not isinstance(evidence.launch, Known):
        return Diagnosis(state=State.CANNOT_TELL, headline="the launch is not known", must_not=(MUST_NOT[0],))
    launch = evidence.launch.value
    causes = ordered(SLUG, _causes(evidence, launch, limits))
    faults, own = credible(causes), _unknowns(evidence, launch)
    unknowns = (*missing(evidence), *own)
    return diagnosis(
        SLUG,
        causes,
        state=state_of(causes, blind=unknowns),
        headline=_headline(launch, faults, (*(f"{c.subject}: {c.evidence[0]}" for c in causes), *unknowns)),
        must_not=MUST_NOT,
        remedy=lambda c: fix_for(c, launch),
        findings=tuple(_finding(c, launch) for c in faults),
        unknowns=own,
        by_hand=tuple(dict.fromkeys(fix_for(c, launch) for c in causes)) or ("nvidia-smi; ip -br addr; df -h /dev/shm",),
    )


def _causes(evidence: Evidence, launch: Launch, limits: Limits) -> list[Cause]:
    nodes = [v.facts.value for v in evidence.nodes if isinstance(v.facts, Known)]
    found = [*command_causes(nodes, launch), *batch_causes(evidence), *_alike(nodes, launch), *_skew(nodes, limits)]
    found += [] if any(c.slug == "launch-command" for c in found) else process_causes(nodes, launch)
    found += address_causes(nodes, launch)
    for node in nodes:
        found += [
            *interface_causes(node, launch),
            *route_causes(node),
            *port_causes(node, launch, evidence),
            *peer_causes(node, {n.node: n.proxy for n in nodes}),
            *_memory(node, launch, limits),
            *_paths(node),
        ]
    if isinstance(evidence.config, Known):
        found += config_causes(evidence.config.value, launch)
    return found


def _alike(nodes: list[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """GPUs as expected; driver and library versions alike on every node."""
    found = []
    for node in nodes:
        count = len(node.gpus.value) if isinstance(node.gpus, Known) else 0
        if isinstance(node.gpus, Unknown) or launch.gpus_per_node in (None, count):
            continue
        found.append(failed("gpus-missing", node.node, f"{count} GPUs, {launch.gpus_per_node} expected"))
    tables = {"driver": {n.node: n.driver for n in nodes if n.driver}}
    for name in ("torch", "cuda", "nccl", "python"):
        tables[name] = {n.node: n.versions[name] for n in nodes if n.versions.get(name)}
    tables["GPU models"] = {
        n.node: ", ".join(sorted(set(n.gpus.value))) for n in nodes if isinstance(n.gpus, Known) and n.gpus.value
    }
    for name, values in tables.items():
        if len(set(values.values())) > 1:
            words = "; ".join(f"{node}: {value}" for node, value in values.items())
            found.append(
                failed("versions-differ", name, words, sure=name in ("nccl", "torch"), decides=("a test run",))
            )
    return found


def _skew(nodes: list[LaunchNodeFacts], limits: Limits) -> list[Cause]:
    clocks = sorted((n.clock_skew_s, n.node) for n in nodes)
    if len(clocks) < 2 or clocks[-1][0] - clocks[0][0] <= limits.clock_skew_s:
        return []
    words = f"{clocks[-1][1]} is {clocks[-1][0] - clocks[0][0]:.0f} s ahead of {clocks[0][1]}"
    return [failed("clock-skew", clocks[0][1], words)]


def small_lock(node: LaunchNodeFacts, limits: Limits) -> bool:
    """Too little memory may be locked for RDMA."""
    return node.memlock_bytes is not None and node.memlock_bytes < limits.memlock_bytes


def _without_rdma(node: LaunchNodeFacts, launch: Launch) -> bool:
    env = node.env | launch.env
    return env.get("NCCL_IB_DISABLE") == "1" or env.get("NCCL_NET", "").lower() == "socket"


def _no_card(node: LaunchNodeFacts, launch: Launch, taken: tuple[str, ...]) -> list[Cause]:
    """No device at all, or none that NCCL_IB_HCA takes."""
    if not node.rdma_devices:
        return [failed("rdma-missing", node.node, "no device under /sys/class/infiniband")]
    if taken:
        return []
    words = f"{HCA}={(node.env | launch.env)[HCA]} takes none of {', '.join(node.rdma_devices[:8])}"
    own = HCA in launch.env
    decides = () if own else (f"whether the job gets the {HCA} of a log-in",)
    fix = f"export {HCA}=<a name from `ls /sys/class/infiniband`>   # on {node.node}, or unset it"
    return [failed("rdma-missing", node.node, words, sure=own, decides=decides, fix=fix)]


def _memory(node: LaunchNodeFacts, launch: Launch, limits: Limits) -> list[Cause]:
    """Shared memory, and what RDMA needs."""
    found = []
    if node.shm_bytes is not None and node.shm_bytes < launch.shm_gb * 1e9:
        words = f"shared memory has {size(node.shm_bytes)}, {launch.shm_gb:g} GB are asked for"
        found.append(failed("shm-small", node.node, words))
    taken = cards(node.rdma_devices, (node.env | launch.env).get(HCA, ""))
    if launch.rdma:
        found += _no_card(node, launch, taken)
        if node.rdma_library is False:
            found.append(failed("rdma-missing", node.node, "libibverbs is not installed"))
        if small_lock(node, limits):
            found.append(failed("rdma-missing", node.node, f"locked memory is limited to {size(node.memlock_bytes or 0)}"))
    elif taken and node.rdma_library and small_lock(node, limits) and not _without_rdma(node, launch):
        words = f"NCCL takes {', '.join(taken[:4])} unasked, and locked memory is limited to {size(node.memlock_bytes or 0)}"
        decides = ("whether the job gets this log-in's limit: that of its unit or container counts",
                   "whether it uses these cards: `rdma: true` in its launch, or NCCL_IB_DISABLE=1")  # fmt: skip
        found.append(possible("rdma-missing", node.node, words, decides=decides))
    odd = {k: v for k, v in node.env.items() if k in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    if odd:
        words = "; ".join(f"{k}={v}" for k, v in sorted(odd.items()))
        found.append(
            failed(
                "environment-odd",
                node.node,
                f"set in the login environment: {words}",
                sure=False,
                decides=("torchrun sets them itself",),
            )
        )
    return found


def _paths(node: LaunchNodeFacts) -> list[Cause]:
    """ACS between the GPUs of a machine of its own. In a virtual machine it is the host's business, and on as a rule."""
    paths = node.paths
    if paths is None or paths.virtual or not paths.redirects:
        return []
    many = f" and {len(paths.redirects) - 3} more" if len(paths.redirects) > 3 else ""
    words = f"ACS sends peer-to-peer traffic through the root at {', '.join(paths.redirects[:3])}{many}"
    iommu = f"the IOMMU translates: {paths.iommu}" if paths.iommu else "the IOMMU does not translate"
    test = ("all_reduce_perf on this node, with and without NCCL_P2P_DISABLE=1",)
    return [failed("acs-redirects", node.node, words, iommu, sure=False, decides=test)]


def _unknowns(evidence: Evidence, launch: Launch) -> tuple[str, ...]:
    """What the readings that were made leave open."""
    found = [*command_unknowns(launch)]
    for facts in (v.facts.value for v in evidence.nodes if isinstance(v.facts, Known)):
        found += [f"{facts.node}: versions: {facts.versions_error}"] if facts.versions_error else []
        if facts.paths and facts.paths.denied and not facts.paths.virtual:
            found.append(f"{facts.node}: ACS of {len(facts.paths.denied)} PCI bridges above its GPUs: denied: only root reads it")
    if launch.config and not world_sizes(launch):
        found.append("divisibility of the batch: the command line does not say how many processes there will be")
    return tuple(found)


def _headline(launch: Launch, causes: tuple[Cause, ...], unknowns: tuple[str, ...]) -> str:
    if causes:
        return of_cause(book(SLUG), causes[0], f"launch {launch.name}", more=len(causes) - 1)
    if unknowns:
        return f"launch {launch.name}: cannot tell, {unknowns[0]}"
    return f"launch {launch.name}: ready on {len(launch.nodes)} nodes"


def _finding(cause: Cause, launch: Launch) -> Finding:
    priority = "HIGH" if cause.certainty is Certainty.CONFIRMED else "MEDIUM"
    issue = f"{cause.subject}: {cause.evidence[0]}"
    return Finding(priority=priority, category="distributed setup", issue=issue, action=fix_for(cause, launch))
