"""Gathers the evidence of `distributed-setup`: every node of a launch at once, and its training configuration."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runbooks.core.fleet import Fleet
from runbooks.core.launch_config import Launch
from runbooks.core.reading import Absent, Known, Source, Unknown, Why
from runbooks.distributed_setup.evidence import ConfigText, Evidence, GpuPaths, NodeFacts, NodeView, Peer
from runbooks.distributed_setup.network import nccl_address, socket_ifname
from runbooks.parsers.nccl_interfaces import Interface
from runbooks.parsers.pci_acs import parse_acs
from tasks.context import Context
from tasks.diagnostics.probe import run_probe
from tasks.transport.base import TransportError

LISTEN_S = 8.0  # at most: nodes begin seconds apart over SSH
_SHOWN = "nvidia-smi -L; ip -br addr; ip route; df -h /dev/shm; ss -ltnp; ls /sys/class/infiniband"


def find_launch(fleet: Fleet, target: str) -> Launch | None:
    """The launch of that name, else the first that uses the node of that name."""
    named = [x for x in fleet.launches if x.name == target]
    return next(iter([*named, *(x for x in fleet.launches if target in x.nodes)]), None)


def gather_distributed_setup(context: Context) -> Evidence:
    """One launch. All nodes are read at the same time, then each listens while the others connect."""
    launch = find_launch(context.fleet, context.target)
    if launch is None:
        return Evidence(
            taken_at=context.now(), launch=Absent(proof="the fleet file has no `launches` entry for this target")
        )
    with ThreadPoolExecutor(max_workers=len(launch.nodes)) as pool:
        found = list(pool.map(lambda n: _read(context, launch, n), launch.nodes))
        hosts = {view.node: _address(view, launch, context) for view, _ in found}
        views = tuple(pool.map(lambda f: _reach(context, launch, f[0], hosts), found))
    shown = launch.model_copy(
        update={"command": context.redactor.argv(launch.command), "env": context.redactor.env(launch.env)}
    )
    return Evidence(
        taken_at=context.now(),
        launch=Known[Launch](value=shown),
        nodes=views,
        config=_config(launch, found[0], context),
    )


Answer = Mapping[str, Any]


def _read(context: Context, launch: Launch, node: str) -> tuple[NodeView, Answer | TransportError]:
    source = Source(command=_SHOWN, host=node, taken_at=context.now())
    try:
        began = context.now()
        host = context.open_host(context.fleet.node(node))
        config = launch.config if node == launch.nodes[0] else None
        ask = {"port": launch.port, "python": launch.python, "config": config}
        answer = run_probe(host, "rdzv_preflight", ask, timeout_s=120)
    except TransportError as e:
        return NodeView(node=node, facts=Unknown(reason=e.reason, detail=e.detail, source=source)), e
    lag = answer["clock_s"] - began.timestamp()
    facts = parse_facts(answer, node, max(0.0, abs(lag) - 5.0) * (1 if lag > 0 else -1), source)
    return NodeView(node=node, facts=Known[NodeFacts](value=facts, source=source)), answer


def _address(view: NodeView, launch: Launch, context: Context) -> str:
    """Where the others look for a node: the address of the interface that NCCL would pick there, else the fleet file's."""
    if isinstance(view.facts, Known) and isinstance(view.facts.value.interfaces, Known):
        picked = nccl_address(view.facts.value.interfaces.value, socket_ifname(launch, view.facts.value))
        if picked:
            return picked
    return context.fleet.node(view.node).host or "127.0.0.1"


def _reach(context: Context, launch: Launch, view: NodeView, hosts: Mapping[str, str]) -> NodeView:
    """The node's view with its attempts to reach the others: each listens while the others connect."""
    peers = [{"node": n, "host": h} for n, h in hosts.items() if n != view.node]
    if not isinstance(view.facts, Known) or not peers:
        return view
    ask = {"port": launch.port, "peers": peers, "seconds": LISTEN_S, "listen": not view.facts.value.port_open}
    source = Source(command=f"nc -zv PEER {launch.port}", host=view.node, taken_at=context.now())
    try:
        host = context.open_host(context.fleet.node(view.node))
        answer = run_probe(host, "rdzv_reach", ask, timeout_s=LISTEN_S + 30)
    except TransportError as e:
        return NodeView(node=view.node, facts=Unknown(reason=e.reason, detail=e.detail, source=source))
    tried = tuple(Peer(node=p["node"], address=_shown(p, launch.port), error=p["error"]) for p in answer["peers"])
    facts = view.facts.value.model_copy(update={"peers": tried})
    return view.model_copy(update={"facts": view.facts.model_copy(update={"value": facts})})


def _shown(peer: Mapping[str, Any], port: int) -> str:
    return f"[{peer['host']}]:{port}" if ":" in peer["host"] else f"{peer['host']}:{port}"


def parse_facts(answer: Answer, node: str, skew_s: float, source: Source) -> NodeFacts:
    """The probe's answer as types."""
    gpus, driver = _gpus(answer, source)
    versions, error = _versions(answer["versions"])
    return NodeFacts(
        node=node,
        clock_skew_s=round(skew_s, 1),
        gpus=gpus,
        driver=driver,
        versions=versions,
        versions_error=error,
        interfaces=_interfaces(answer["addresses"], source),
        routes=_routes(answer["routes"]),
        port_open=answer["port_open"],
        port_holders=tuple(answer["port_holders"]),
        shm_bytes=answer["shm_bytes"],
        rdma_devices=tuple(answer["rdma_devices"]),
        rdma_library=answer["rdma_library"],
        memlock_bytes=answer["memlock_bytes"],
        env=answer["env"],
        paths=_paths(answer.get("pci")),
    )


def _paths(found: Mapping[str, Any] | None) -> GpuPaths | None:
    """The bridges above the GPUs, each by its own configuration space."""
    if not found or len(found["gpus"]) < 2:
        return None
    read = {name: parse_acs(bytes.fromhex(text)) for name, text in found["bridges"].items()}
    passes = any(w.endswith("=pt") or w == "iommu.passthrough=1" for w in found["cmdline"])
    translates = bool(found["groups"]) and bool(found["iommu"]) and not passes
    return GpuPaths(
        redirects=tuple(f"{n} ({', '.join(acs.redirects)})" for n, acs in read.items() if acs and acs.redirects),
        denied=tuple(n for n, acs in read.items() if acs is None), virtual=found["virtual"],
        iommu=" ".join((*found["iommu"], *found["cmdline"])) if translates else "",
    )  # fmt: skip


def _gpus(answer: Answer, source: Source) -> tuple[Known[tuple[str, ...]] | Absent | Unknown, str]:
    """Models and driver. No tool and no driver is an absence; no tool beside a driver is not known."""
    found = answer["gpus"]
    if found.get("error") == "tool-missing" and not answer["driver_there"]:
        return Absent(proof="no nvidia-smi, no NVIDIA driver and no /dev/nvidia*", source=source), ""
    if "error" in found:
        return Unknown(reason=Why(found["error"]), detail=found["what"], source=source), ""
    rows = [[part.strip() for part in line.split(",")] for line in found["text"].splitlines() if "," in line]
    return Known[tuple[str, ...]](value=tuple(r[0] for r in rows), source=source), rows[0][1] if rows else ""


def _versions(found: Any) -> tuple[dict[str, str], str]:
    if found is None:
        return {}, ""
    if "error" in found:
        return {}, f"{found['error']}: {found['what']}"
    try:
        data = json.loads(found["text"].splitlines()[-1])
    except (ValueError, IndexError) as e:
        return {}, f"unparsable: {e}"
    return {k: str(v) for k, v in data.items() if v}, ""


def _interfaces(found: Any, source: Source) -> Known[tuple[Interface, ...]] | Unknown:
    if "error" in found:
        return Unknown(reason=Why(found["error"]), detail=found["what"], source=source)
    try:
        data = json.loads(found["text"])
        return Known[tuple[Interface, ...]](value=tuple(_interface(i) for i in data if i), source=source)
    except (ValueError, KeyError, TypeError) as e:
        return Unknown(reason=Why.UNPARSABLE, detail=str(e), source=source)


def _interface(item: Mapping[str, Any]) -> Interface:
    addresses = tuple(f"{a['local']}/{a['prefixlen']}" for a in item.get("addr_info", []) if a.get("scope") != "link")
    flags = item.get("flags", [])
    return Interface(name=item["ifname"], up="UP" in flags, addresses=addresses, loopback="LOOPBACK" in flags)


def _routes(found: Any) -> tuple[str, ...]:
    try:
        return tuple(f"{r['dst']} {r['dev']}" for r in json.loads(found.get("text", "[]")) if r.get("dev"))
    except (ValueError, KeyError, TypeError):
        return ()


def _config(launch: Launch, first: tuple[NodeView, Answer | TransportError], context: Context) -> Any:
    """The configuration as text with secrets replaced, which keeps lines and columns."""
    source = Source(command=f"cat {launch.config}", host=launch.nodes[0], taken_at=context.now())
    if launch.config is None:
        return Absent(proof="the launch names no configuration")
    answer = first[1]
    if isinstance(answer, TransportError):
        return Unknown(reason=answer.reason, detail=answer.detail, source=source)
    found = answer["config"]
    if "error" in found:
        return Unknown(reason=Why(found["error"]), detail=found["what"], source=source)
    return Known[ConfigText](
        value=ConfigText(path=launch.config, text=context.redactor.text(found["text"])), source=source
    )
