"""Gathers the evidence of `distributed-setup`: every node of a launch at once, and its training configuration."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from runbooks.core.fleet import Fleet
from runbooks.core.launch_config import Launch
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.redact import Redactor
from runbooks.launch.evidence import (
    ConfigText,
    Evidence,
    GpuPaths,
    Launcher,
    LaunchNodeFacts,
    LaunchNodeView,
    Peer,
    PortHolder,
)
from runbooks.launch.network import nccl_address, socket_ifname
from runbooks.launch.parsers.nccl_interfaces import Interface
from runbooks.launch.parsers.pci_acs import parse_acs
from runbooks.launch.parsers.slurm_batch import Batch, parse_batch
from runbooks.parsers.torchrun_cmdline import parse_launch
from tasks.context import Context
from tasks.diagnostic import ReaderPool, diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import TransportError

_KEY = secrets.token_bytes(16)  # of this process: digests of script arguments only compare within it
TASKS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
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
        return Evidence(taken_at=context.now(), launch=Absent(proof="the fleet file has no `launches` entry for this target"))
    with ReaderPool(max_workers=len(launch.nodes)) as pool:
        found = list(pool.map(lambda n: _read(context, launch, n), launch.nodes))
        hosts = {view.node: _address(view, launch, context) for view, _ in found}
        busy = {v.node for v, _ in found if isinstance(v.facts, Known) and v.facts.value.port_open}
        mark = f"gpu-runbooks-{secrets.token_hex(8)}"
        views = tuple(pool.map(lambda f: _reach(context, launch, f[0], hosts, busy, mark), found))
    shown = launch.model_copy(
        update={"command": context.redactor.argv(launch.command), "env": context.redactor.env(launch.env)}
    )
    return Evidence(
        taken_at=context.now(),
        launch=Known[Launch](value=shown),
        nodes=views,
        config=_config(launch, found[0], context),
        batch=_batch(launch, found[0], context),
    )


Answer = Mapping[str, Any]


@diagnostic("launch settings · {node}")
def _read(context: Context, launch: Launch, node: str) -> tuple[LaunchNodeView, Answer | TransportError]:
    source = Source(command=_SHOWN, host=node, taken_at=context.now())
    try:
        began = context.now()
        host = context.open_host(context.fleet.node(node))
        first = node == launch.nodes[0]
        ask = {"port": launch.port, "python": launch.python, "config": launch.config if first else None,
               "batch": launch.batch if first else None}  # fmt: skip
        answer = run_probe(host, "rdzv_preflight", ask, timeout_s=120)
    except TransportError as e:
        return LaunchNodeView(node=node, facts=Unknown(reason=e.reason, detail=e.detail, source=source)), e
    lag = answer["clock_s"] - began.timestamp()
    facts = parse_facts(answer, node, max(0.0, abs(lag) - 5.0) * (1 if lag > 0 else -1), source, context.redactor)
    return LaunchNodeView(node=node, facts=Known[LaunchNodeFacts](value=facts, source=source)), answer


def _address(view: LaunchNodeView, launch: Launch, context: Context) -> str:
    """Where the others look for a node: the address of the interface that NCCL would pick there, else the fleet file's."""
    if isinstance(view.facts, Known) and isinstance(view.facts.value.interfaces, Known):
        picked = nccl_address(view.facts.value.interfaces.value, socket_ifname(launch, view.facts.value))
        if picked:
            return picked
    return context.fleet.node(view.node).host or "127.0.0.1"


@diagnostic("connections to the other nodes · {view.node}")
def _reach(
    context: Context, launch: Launch, view: LaunchNodeView, hosts: Mapping[str, str], busy: set[str], mark: str
) -> LaunchNodeView:
    """The node's view with its attempts to reach the others: each listens while the others connect."""
    peers = [{"node": n, "host": h, "listens": n not in busy} for n, h in hosts.items() if n != view.node]
    if not isinstance(view.facts, Known) or not peers:
        return view
    ask = {"node": view.node, "mark": mark, "port": launch.port, "peers": peers, "seconds": LISTEN_S,
           "listen": view.node not in busy}  # fmt: skip
    source = Source(command=f"nc -zv PEER {launch.port}", host=view.node, taken_at=context.now())
    try:
        host = context.open_host(context.fleet.node(view.node))
        answer = run_probe(host, "rdzv_reach", ask, timeout_s=LISTEN_S + 30)
    except TransportError as e:
        return LaunchNodeView(node=view.node, facts=Unknown(reason=e.reason, detail=e.detail, source=source))
    tried = tuple(Peer(node=p["node"], address=_shown(p, launch.port), error=p["error"]) for p in answer["peers"])
    facts = view.facts.value.model_copy(update={"peers": tried})
    return view.model_copy(update={"facts": view.facts.model_copy(update={"value": facts})})


def _shown(peer: Mapping[str, Any], port: int) -> str:
    return f"[{peer['host']}]:{port}" if ":" in peer["host"] else f"{peer['host']}:{port}"


def parse_facts(answer: Answer, node: str, skew_s: float, source: Source, redactor: Redactor) -> LaunchNodeFacts:
    """The probe's answer as types."""
    gpus, driver = _gpus(answer, source)
    versions, error = _versions(answer["versions"])
    return LaunchNodeFacts(
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
        holders=tuple(PortHolder(**h | {"command": redactor.text(h["command"])[:300]}) for h in answer["processes"]["holders"]),
        launchers=tuple(x for x in map(_launcher, answer["processes"]["launchers"]) if x is not None),
        proxy=answer["proxy"],
        shm_bytes=answer["shm_bytes"],
        rdma_devices=tuple(answer["rdma_devices"]),
        rdma_library=answer["rdma_library"],
        memlock_bytes=answer["memlock_bytes"],
        env=answer["env"],
        paths=_paths(answer.get("pci")),
    )


def _launcher(one: Mapping[str, Any]) -> Launcher | None:
    """A torchrun as types; the script's arguments are dropped here."""
    env = one["env"]
    told = parse_launch(one["argv"], _KEY, env)
    if told is None:
        return None
    port = told.endpoint.rpartition(":")[2] or str(told.master_port or env.get("MASTER_PORT", ""))
    tasks = next((env[n] for n in TASKS if env.get(n)), "")
    return Launcher(pid=one["pid"], started_s=one["started_s"], launch=told, port=int(port) if port.isdecimal() else None,
                    listens=one["listens"], slurm_job=env.get("SLURM_JOB_ID", ""), tasks=tasks)  # fmt: skip


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
        return Unknown(reason=UnknownReason(found["error"]), detail=found["what"], source=source), ""
    rows = [[part.strip() for part in line.split(",")] for line in found["text"].splitlines() if "," in line]
    return Known[tuple[str, ...]](value=tuple(r[0] for r in rows), source=source), rows[0][1] if rows else ""


def _versions(found: Any) -> tuple[dict[str, str], str]:
    if found is None:
        return {}, ""
    if "error" in found:
        return {}, f"{found['error']}: {found['what']}"
    try:
        data = json.loads(found["text"].splitlines()[-1])
    except ODD_ANSWER as e:
        return {}, f"unparsable: {e}"
    return {k: str(v) for k, v in data.items() if v}, ""


def _interfaces(found: Any, source: Source) -> Known[tuple[Interface, ...]] | Unknown:
    if "error" in found:
        return Unknown(reason=UnknownReason(found["error"]), detail=found["what"], source=source)
    try:
        data = json.loads(found["text"])
        return Known[tuple[Interface, ...]](value=tuple(_interface(i) for i in data if i), source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e), source=source)


def _interface(item: Mapping[str, Any]) -> Interface:
    addresses = tuple(f"{a['local']}/{a['prefixlen']}" for a in item.get("addr_info", []) if a.get("scope") != "link")
    flags = item.get("flags", [])
    return Interface(name=item["ifname"], up="UP" in flags, addresses=addresses, loopback="LOOPBACK" in flags)


def _routes(found: Any) -> tuple[str, ...]:
    try:
        return tuple(f"{r['dst']} {r['dev']}" for r in json.loads(found.get("text", "[]")) if r.get("dev"))
    except ODD_ANSWER:
        return ()


def _named(what: str, path: str | None, launch: Launch, first: tuple[LaunchNodeView, Answer | TransportError], context: Context) -> Any:
    """A file that the launch names, as text, read on its first node."""
    source = Source(command=f"cat {path}", host=launch.nodes[0], taken_at=context.now())
    if path is None:
        return Absent(proof=f"the launch names no {what}")
    answer = first[1]
    if isinstance(answer, TransportError):
        return Unknown(reason=answer.reason, detail=answer.detail, source=source)
    found = answer["config" if what == "configuration" else "batch"]
    if "error" in found:
        return Unknown(reason=UnknownReason(found["error"]), detail=found["what"], source=source)
    return Known[str](value=found["text"], source=source)


def _config(launch: Launch, first: tuple[LaunchNodeView, Answer | TransportError], context: Context) -> Any:
    """The configuration as text with secrets replaced, which keeps lines and columns."""
    found = _named("configuration", launch.config, launch, first, context)
    if not isinstance(found, Known):
        return found
    text = ConfigText(path=launch.config or "", text=context.redactor.text(found.value))
    return Known[ConfigText](value=text, source=found.source)


def _batch(launch: Launch, first: tuple[LaunchNodeView, Answer | TransportError], context: Context) -> Any:
    """What the batch script says of tasks and launchers."""
    found = _named("batch script", launch.batch, launch, first, context)
    if not isinstance(found, Known):
        return found
    return Known[Batch](value=parse_batch(context.redactor.text(found.value)), source=found.source)
