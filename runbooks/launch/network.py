"""Judges a node's network before a launch: the interface that NCCL would pick, routes, the port, the way to the others."""

import ipaddress
from collections import defaultdict
from collections.abc import Mapping, Sequence

from runbooks.core.launch_config import Launch
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause
from runbooks.launch.causes import failed
from runbooks.launch.evidence import LaunchNodeFacts
from runbooks.launch.parsers.nccl_interfaces import Interface, pick


def socket_ifname(launch: Launch, node: LaunchNodeFacts) -> str:
    """NCCL_SOCKET_IFNAME as the job on that node will have it."""
    return launch.env.get("NCCL_SOCKET_IFNAME", node.env.get("NCCL_SOCKET_IFNAME", ""))


def interface_causes(node: LaunchNodeFacts, launch: Launch) -> list[Cause]:
    """The interface that NCCL would pick, also on one node, and whether it is one that peers can reach."""
    spec, several = socket_ifname(launch, node), len(launch.nodes) > 1
    if not isinstance(node.interfaces, Known) or not (several or spec):
        return []
    picked = pick(node.interfaces.value, spec)
    names = ", ".join(i.name for i in node.interfaces.value if i.up)
    if not picked:
        return [failed("no-interface", node.node, f"NCCL_SOCKET_IFNAME={spec} matches none of {names}")]
    first = picked[0]
    if several and _inside(first):
        words = f"NCCL would use {first.name} ({', '.join(first.addresses)}), which other nodes do not reach"
        return [failed("interface-wrong", node.node, words)]
    return []


def _inside(interface: Interface) -> bool:
    """Whether nothing outside of the node reaches it."""
    return interface.loopback or interface.name.startswith(("docker", "br-", "virbr"))


def address_causes(nodes: Sequence[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """Nodes on which NCCL would use one and the same address: behind a bridge of its own each, and none reaches the other by it."""
    same: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        faces = node.interfaces.value if isinstance(node.interfaces, Known) else ()
        picked = pick(faces, socket_ifname(launch, node))
        if picked and not _inside(picked[0]) and (address := nccl_address(faces, socket_ifname(launch, node))):
            same[address].append(f"{picked[0].name} on {node.node}")
    check = ("whether these are two machines, or two names of one", "the machines' own addresses, asked outside of the containers")
    return [
        failed("interface-wrong", ", ".join(n.rpartition(" on ")[2] for n in there), words, sure=False, decides=check)
        for address, there in same.items() if len(there) > 1
        for words in (f"NCCL would use {' and '.join(there)}, which have one address, {address}. No node reaches another by its own",)
    ]  # fmt: skip


def route_causes(node: LaunchNodeFacts) -> list[Cause]:
    """Two interfaces with a route to one and the same network."""
    by_net: dict[str, list[str]] = defaultdict(list)
    for route in node.routes:
        net, _, dev = route.partition(" ")
        if net != "default" and dev not in by_net[net]:
            by_net[net].append(dev)
    words = [
        f"{net} leaves by {' or '.join(devs)}; the first in order wins" for net, devs in by_net.items() if len(devs) > 1
    ]
    return [failed("two-nics-one-subnet", node.node, *words)] if words else []


def peer_causes(node: LaunchNodeFacts, meshes: Mapping[str, str]) -> list[Cause]:
    """The way to the other nodes. `meshes`: node -> service mesh whose proxy takes its connections."""
    lost = [p for p in node.peers if p.error]
    shut = [p for p in lost if p.error.startswith("closed:")]
    found = []
    if shut:
        words = [f"{node.node} -> {p.node} ({p.address}): {p.error.removeprefix('closed: ')}" for p in shut]
        seen = [f"on {n} a proxy of {m} takes its connections" for n in (node.node, *(p.node for p in shut)) if (m := meshes.get(n))]
        check = () if seen else ("the pod's other containers (kubectl get pod), or a firewall that resets",)
        found.append(failed("proxy-closes", node.node, *words, *dict.fromkeys(seen), sure=bool(seen), decides=check))
    words = [f"{node.node} -> {p.node} ({p.address}): {p.error}" for p in lost if p not in shut]
    return [*found, failed("peer-unreachable", node.node, *words)] if words else found


def nccl_address(interfaces: tuple[Interface, ...], spec: str) -> str:
    """The first IPv4 address of the interface that NCCL would pick; "" when there is none."""
    for interface in pick(interfaces, spec):
        for address in interface.addresses:
            ip = ipaddress.ip_interface(address).ip
            if ip.version == 4:
                return str(ip)
    return ""
