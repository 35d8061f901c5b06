"""Gathers the evidence of `stale-rendezvous`: etcd twice, more than three beats apart, and every configured node."""

import shlex

from runbooks.core.fleet import Fleet
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.rendezvous_config import Rendezvous, joiners
from runbooks.rendezvous.evidence import NO_RETURN, EtcdFacts, Evidence, NodeView, Reads, StoreView
from runbooks.rendezvous.life import hosts_of, known_nodes
from runbooks.rendezvous.parsers.etcd_v2 import Backend, NotEtcd, RunKeys, without_most_keys
from runbooks.rendezvous.parsers.rdzv_state import DynamicState
from runbooks.rendezvous.plans import PROBED_ON
from runbooks.rendezvous.ports import named
from runbooks.rendezvous.runs import wanted
from tasks.context import Context
from tasks.diagnostic import ReaderPool, diagnostic
from tasks.rendezvous.etcd import ask_etcd, etcd_source, parse_facts, parse_runs, unknown_keys
from tasks.rendezvous.members import read_node
from tasks.rendezvous.saved import read_putback
from tasks.rendezvous.silent import read_stopped
from tasks.transport.base import TransportError

BEATS = 3  # torch, elastic/rendezvous/dynamic_rendezvous.py: keep_alive_max_attempt
RANK_TTL_S = 10.0  # torch, elastic/rendezvous/etcd_rendezvous.py: CONST_WORKER_KEEPALIVE_TTL
SLACK_S = 1.0  # a beat is written within a second of its time (with beats below a second: within one beat)


def find_place(fleet: Fleet, target: str) -> tuple[Rendezvous | None, str]:
    """The rendezvous and the run (or "") that a target means: its name, `name/run`, or a node that asks its etcd."""
    name, _, run = target.partition("/")
    named = next((p for p in fleet.rendezvous if p.name == name), None)
    if named is not None:
        return named, run
    asked = [p for p in fleet.rendezvous if name == p.asks] or [p for p in fleet.rendezvous if name in p.nodes]
    return next(iter(asked), None), run


def gather_stale_rendezvous(context: Context) -> Evidence:
    """Everything about one rendezvous. Takes three beats (15 s at torch's defaults) where etcd holds runs."""
    place, run = find_place(context.fleet, context.target)
    if place is None:
        proof = "the fleet file has no `rendezvous` section for this target"
        return Evidence(name="", taken_at=context.now(), configured=Absent(proof=proof))
    if context.options.get("restore"):
        return _asked_back(context, place, str(context.options["restore"]))
    etcd, runs = _etcd(context, place)
    nodes = _nodes(context, place, runs)
    evidence = Evidence(
        name=place.name,
        taken_at=context.now(),
        endpoints=place.endpoints,
        backends=place.backends,
        asks=place.asks,
        prefix=place.prefix,
        keep_alive_s=place.keep_alive_s,
        run=run or str(context.options.get("run", "")),
        configured=Known[bool](value=True),
        etcd=etcd,
        runs=runs,
        etcd_stopped=read_stopped(context, place, etcd),
        nodes=nodes,
        known_runs=place.runs,
        port=place.port,
        start=place.start.command if place.start else (),
        start_node=place.start.node if place.start else "",
        start_data=(place.start.data_dir or "") if place.start else "",
        probe=place.probe is not None,
        probe_command=_probe_command(place),
        symptom=context.redactor.text(str(context.options.get("symptom", ""))[:20_000]),
        hands_off=tuple(n.name for n in context.fleet.nodes if n.hands_off),
        contained=place.contained,
        room=len(place.nodes),
        saved=NO_RETURN,
    )
    return _short(evidence.model_copy(update={"stores": _stores(evidence)}))


def _short(evidence: Evidence) -> Evidence:
    """Without the long lists of keys of runs that nobody asked about and nobody is known to use again."""
    if not isinstance(evidence.runs, Known):
        return evidence
    reads = evidence.runs.value
    pairs = {name: tuple(_slim(r, evidence) for r in getattr(reads, name)) for name in ("first", "second")}
    runs = evidence.runs.model_copy(update={"value": reads.model_copy(update=pairs)})
    return evidence.model_copy(update={"runs": runs})


def _slim(run: RunKeys, evidence: Evidence) -> RunKeys:
    return run if wanted(run.run, evidence) else without_most_keys(run)


def _probe_command(place: Rendezvous) -> str:
    if place.probe is None:
        return ""
    words = shlex.join(w.replace("{endpoint}", place.endpoints[0]) for w in place.probe.command)
    return f"{words}{PROBED_ON}{', '.join(place.probe.nodes)} at once"


def _asked_back(context: Context, place: Rendezvous, file: str) -> Evidence:
    """A saved run that a person wants back: only its own keys are looked at, and nothing beats, so nothing is waited for."""
    alone = Absent(proof="only the keys of the saved run were looked at")
    return Evidence(
        name=place.name,
        taken_at=context.now(),
        endpoints=place.endpoints,
        backends=place.backends,
        asks=place.asks,
        prefix=place.prefix,
        configured=Known[bool](value=True),
        etcd=alone,
        runs=alone,
        etcd_stopped=alone,
        saved=read_putback(context, place, file),
    )


@diagnostic("etcd state and keys · {place.name}")
def _etcd(
    context: Context, place: Rendezvous
) -> tuple[Known[EtcdFacts] | Absent | Unknown, Known[Reads] | Absent | Unknown]:
    """etcd's own state, and the keys at two moments."""
    if not place.etcd:
        absent = Absent(proof="this rendezvous uses no etcd backend")
        return absent, absent
    try:
        host = context.open_host(context.fleet.node(place.asks))
        answer = ask_etcd(host, place)
    except TransportError as e:
        reason = UnknownReason.NOT_ASKED if e.reason is UnknownReason.UNREACHABLE else e.reason
        detail = f"node {place.asks}, which asks etcd, gives no answer: {e}"
        lost = Unknown(reason=reason, detail=detail, source=etcd_source(place, context, "/health"))
        return lost, lost
    facts = parse_facts(answer, place, context)
    try:
        first = parse_runs(answer, place)
        return facts, _second(context, place, first)
    except (TransportError, NotEtcd) as e:
        return facts, unknown_keys(e, place, context)


def _second(context: Context, place: Rendezvous, first: tuple[RunKeys, ...]) -> Known[Reads]:
    """The keys again, three beats later. Nothing to compare: no wait. Raises TransportError, NotEtcd."""
    source = Source(command=f"curl -sS '{place.etcd_endpoint}/v2/keys/?recursive=true'", host=place.asks)
    legacy = any(r.backend is Backend.ETCD for r in first)
    wait = max(BEATS * place.keep_alive_s, RANK_TTL_S if legacy else 0) + min(SLACK_S, place.keep_alive_s)
    if not first:
        return Known[Reads](value=Reads(first=(), second=(), apart_s=wait), source=source)
    started = context.now()
    context.sleep(wait)
    host = context.open_host(context.fleet.node(place.asks))
    second = parse_runs(ask_etcd(host, place, keys_only=True), place)
    apart = (context.now() - started).total_seconds()
    return Known[Reads](value=Reads(first=first, second=second, apart_s=apart), source=source)


def _nodes(context: Context, place: Rendezvous, runs: Known[Reads] | Absent | Unknown) -> tuple[NodeView, ...]:
    """Every configured node at once, after the second read of the keys: a newcomer must not slip between."""
    found = runs.value.second if isinstance(runs, Known) else ()
    pids = {m.pid for r in found if isinstance(r.state, DynamicState) for m in r.state.members}
    with ReaderPool(max_workers=8) as pool:
        every = joiners(context.fleet.rendezvous, place)
        return tuple(pool.map(lambda node: read_node(context, place, node, pids), every))


def _stores(evidence: Evidence) -> tuple[StoreView, ...]:
    """c10d endpoints: which node owns them, and whether any node reaches them."""
    nodes = known_nodes(evidence)
    views = []
    for endpoint in [e for e in evidence.endpoints if not e.startswith("http")]:
        owners = hosts_of(endpoint.rsplit(":", 1)[0], nodes)
        answers = any(not r.error for n in nodes for r in n.reach if r.address == endpoint)
        here = [p for n in owners[:1] for p in n.ports if endpoint.endswith(f":{p.port}")]
        who = ", ".join(w for p in here for w in named(p))
        host = owners[0].node if owners else ""
        views.append(StoreView(endpoint=endpoint, host_node=host, answers=answers, listener=who))
    return tuple(views)
