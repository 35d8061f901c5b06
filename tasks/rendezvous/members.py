"""Reads a node as a member of a rendezvous: agents, workers, ports, reachability, clock."""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from runbooks.core.reading import Known, Source, Unknown
from runbooks.core.redact import Redactor
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.parsers.address import address_of
from runbooks.parsers.torchrun_cmdline import parse_launch
from runbooks.rendezvous.evidence import Agent, Holder, NodeFacts, NodeView, Pid, Port, Reachability, Worker
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import TransportError

_KEY = secrets.token_bytes(16)  # of this process: digests of script arguments only compare within it
_SHOWN = "python3 - < rdzv_node.py   # by hand: ps -eo pid,ppid,lstart,args; ss -tanp"


@diagnostic("agents and workers · {node}")
def read_node(context: Context, place: Rendezvous, node: str, pids: Iterable[int] = ()) -> NodeView:
    """One node of the rendezvous. Never raises for a node that gives no answer: the view says why."""
    source = Source(command=_SHOWN, host=node, taken_at=context.now())
    try:
        started = context.now()
        answer = run_probe(context.open_host(context.fleet.node(node)), "rdzv_node", _ask(context, place, node, pids))
        middle = started + (context.now() - started) / 2
    except TransportError as e:
        return NodeView(node=node, facts=Unknown(reason=e.reason, detail=e.detail, source=source))
    facts = parse_node(answer, node, context, middle.timestamp())
    return NodeView(node=node, facts=Known[NodeFacts](value=facts, source=source))


def _ask(context: Context, place: Rendezvous, node: str, pids: Iterable[int]) -> dict[str, Any]:
    jobs = [j for j in context.fleet.jobs_on(node) if j.name in place.runs.values()]
    return {
        "pids": sorted(set(pids)),
        "ports": sorted({place.port, *(_store_port(e) for e in place.endpoints if not e.startswith("http"))}),
        "addresses": [address_of(e, 2379 if e.startswith("http") else 29400) for e in place.endpoints],
        "jobs": [{"name": j.name, "match": j.match} for j in jobs],
        "checkpoints": place.checkpoints,
    }


def _store_port(endpoint: str) -> int:
    return int(address_of(endpoint, 29400).rsplit(":", 1)[1])


def parse_node(answer: Mapping[str, Any], node: str, context: Context, engine_clock_s: float) -> NodeFacts:
    """The probe's answer as types. Arguments of training scripts are dropped here."""
    agents = [a for a in answer["agents"] if _is_agent(a)]
    workers = _workers(answer["workers"], agents, node)
    host = context.fleet.node(node).host
    return NodeFacts(
        node=node,
        boot_id=answer["boot_id"],
        names=tuple(sorted({*answer["names"], *([host] if host else [])})),
        clock_s=answer["clock_s"],
        skew_s=round(answer["clock_s"] - engine_clock_s, 1),
        agents=tuple(_agent(a, workers, node, context.redactor) for a in agents),
        workers=workers,
        pids=tuple(Pid(**p) for p in answer["pids"]),
        namespace=answer["namespace"],
        hidden=answer["hidden"],
        inside=answer["inside"],
        ports=tuple(_port(p, context.redactor) for p in answer["ports"]),
        reach=tuple(Reachability(**r) for r in answer["reach"]),
        checkpoints=answer["checkpoints"],
        proxy=answer["proxy"],
        **{k: tuple(v) if isinstance(v, list) else v for k, v in answer["own"].items()},
    )


def _port(one: Mapping[str, Any], redactor: Redactor) -> Port:
    holders = tuple(Holder(**h | {"command": redactor.text(h["command"])[:300]}) for h in one["holders"])
    return Port(**{**one, "holders": holders})


def _is_agent(one: Mapping[str, Any]) -> bool:
    """A shell that only mentions torchrun is none, and neither is a worker started by one."""
    return parse_launch(one["argv"], _KEY, one["env"]) is not None and not re.search(
        r"(^|/)(bash|sh|ssh|sudo|timeout|nohup|setsid|env|tmux|screen|grep|vim?)$", one["argv"][0]
    )


def _agent(one: Mapping[str, Any], workers: tuple[Worker, ...], node: str, redactor: Redactor) -> Agent:
    launch = parse_launch(one["argv"], _KEY, one["env"])
    if launch is None:
        raise AssertionError("not an agent")
    kept = {k: one[k] for k in ("pid", "start_ticks", "started_s", "state", "ppid", "uid", "sid", "cgroup")}
    mine = tuple(w.pid for w in workers if w.ppid == one["pid"])
    return Agent(
        node=node,
        launch=launch,
        ns_pids=tuple(one["ns_pids"]),
        workers=mine,
        command=redactor.text(one["command"]),
        **kept,
    )


def _workers(found: list[dict[str, Any]], agents: list[dict[str, Any]], node: str) -> tuple[Worker, ...]:
    pids = {w["pid"] for w in found if w["run_id"] is not None or "RANK" in w["env"]}
    bosses = {a["pid"] for a in agents}
    return tuple(
        Worker(
            node=node,
            orphan=w["run_id"] is not None and w["ppid"] not in bosses | pids,
            loader=w["ppid"] in pids,
            **{k: w[k] for k in ("pid", "start_ticks", "started_s", "state", "ppid", "run_id", "env", "job")},
        )
        for w in found
        if w["pid"] not in bosses
    )
